import json
import subprocess
from pathlib import Path

import pytest

from tests.contracts.contract.small import SMALL
from turngate import cli
from turngate.contract import load
from turngate.files import simulation_files

NEW = f"{SMALL.rstrip()}  # a hang\n"
OLD = NEW.replace(load.CONTRACT, "turngate.engine-contract/1").replace("action:", "compensation:")


@pytest.fixture(name="mine")
def _mine(tmp_path: Path) -> Path:
    """An overlay with a contract of an earlier schema."""
    (tmp_path / "my/engines").mkdir(parents=True)
    (tmp_path / "my/engines/small.yaml").write_text(OLD)
    return tmp_path / "my"


def run(capsys: pytest.CaptureFixture[str], *args: str | Path) -> tuple[int, str, str]:
    """Run the command; return the exit code and the output."""
    code = cli.run(["contracts", "migrate", *map(str, args)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_a_diff_is_shown_that_patch_takes(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --write the file stays as it is, the diff leads to the new text, and the exit code is 1."""
    file = mine / "engines/small.yaml"
    code, diff, said = run(capsys, mine)
    assert (code, file.read_text()) == (1, OLD)
    assert said == f"{file}: 2 changes to {load.CONTRACT}; --write makes them\n"
    subprocess.run(["patch", "-p0", str(file)], input=diff, text=True, check=True, capture_output=True)
    assert file.read_text() == NEW


def test_write_replaces_the_file_and_can_be_repeated(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The file keeps its mode and its link, loads afterwards, and is not changed a second time."""
    file, link = mine / "engines/small.yaml", mine / "small.yaml"
    link.symlink_to(file)
    file.chmod(0o640)
    assert run(capsys, link, "--write") == (0, "", f"{link}: moved to {load.CONTRACT}, 2 changes\n")
    assert (file.read_text(), file.stat().st_mode & 0o777, link.is_symlink()) == (NEW, 0o640, True)
    assert load.read(file).data["deviations"][0]["action"] == "close it"
    assert run(capsys, file, "--write") == (0, "", f"{file}: has {load.CONTRACT}\n")


def test_what_is_gone_and_what_is_left_is_told(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A removed key is named with the reason. What only the author knows gives exit code 2, by new lines."""
    file = mine / "engines/small.yaml"
    lacking = OLD.replace("end:\n  - {stream: stdout, unverified: true}\n", "simulation: {}\n")
    file.write_text(lacking.replace("transport: none", "transport: lines"))
    code, _, said = run(capsys, file, "--write")
    assert code == 2
    gone, line = (
        lacking[: lacking.index("simulation")].count("\n") + 1,
        lacking[: lacking.index("transport")].count("\n"),
    )
    assert f"{file}:{gone}: `simulation` is gone: " in said
    assert f"{file}:{line}:17: $.sticky[0].transport: 'lines' is not one of" in said
    assert "'end' is a required property" in said
    assert "simulation" not in file.read_text()


def test_what_is_refused_stays_and_the_others_are_moved(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code is 2, and each file is reported."""
    both, good = mine / "engines/both.yaml", mine / "engines/small.yaml"
    both.write_text(OLD.replace("compensation:", "action: a, compensation:"))
    code, out, said = run(capsys, mine, "--write", "--json")
    assert (code, both.read_text(), good.read_text()) == (
        2,
        OLD.replace("compensation:", "action: a, compensation:"),
        NEW,
    )
    assert f"{both}:{OLD.count(chr(10))}:" in said
    report = json.loads(out)
    assert [(one["file"], one["state"], one["number"], one["schema"]) for one in report["files"]] == [
        (str(both), "refused", None, None),
        (str(good), "written", 1, load.CONTRACT),
    ]
    assert report["files"][0]["mistakes"][0]["hint"] == "keep one of them, and run it again"
    assert [change["line"] for change in report["files"][1]["changes"]] == [1, OLD.count("\n")]


def test_the_simulations_of_a_folder_are_moved_too(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They stand in the diff, and what is written is used."""
    (mine / "simulations").mkdir()
    file, text = mine / "simulations/qwen.yaml", simulation_files()["qwen"].read_text()
    file.write_text(text.replace(load.SIMULATION, "turngate.simulation/1").replace("after_text:", "said:"))
    assert cli.run(["--contracts", str(mine), "contracts", "options", "codex"]) == 0
    assert f"the simulation of qwen is left out: {file}:1:9: $.schema: " in capsys.readouterr().err
    code, _, said = run(capsys, mine, "--write")
    assert code == 0
    assert said.splitlines()[1:] == [f"{file}: moved to {load.SIMULATION}, 2 changes"]
    assert file.read_text() == text


def test_a_draft_stays_one(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The gaps of a draft are no mistakes of a move."""
    (mine / "engines/small.yaml").write_text(OLD.replace("vendor: Nobody", "vendor: GAP"))
    assert run(capsys, mine, "--write")[0] == 0


def test_a_folder_without_contracts_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says where contracts are."""
    code, _, said = run(capsys, tmp_path)
    assert code == 2
    assert "has no contracts" in said


def test_an_engine_of_an_earlier_schema_is_left_out_with_what_to_do(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every command warns with file, line and command, and works for the other engines."""
    assert cli.run(["--contracts", str(mine), "contracts", "options", "codex"]) == 0
    file = mine / "engines/small.yaml"
    assert f"small is left out: {file}:1:9: $.schema: " in (said := capsys.readouterr().err)
    assert f"(run `turngate contracts migrate {file}`)" in said
