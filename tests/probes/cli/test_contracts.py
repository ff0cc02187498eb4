import json
from pathlib import Path

import pytest

from turngate import cli
from turngate.argv.interactive import allowed
from turngate.contract import load
from turngate.model import Mode


def test_a_wrong_contract_is_told_by_line_and_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each error has file, line and path; the exit code is 2, and a valid file is still reported as valid."""
    good, bad = tmp_path / "good/codex.yaml", tmp_path / "codex.yaml"
    good.parent.mkdir()
    text = (Path(load.__file__).parents[1] / "engines/codex.yaml").read_text()
    good.write_text(text)
    bad.write_text(text.replace("status: active", "status: asleep"))
    assert cli.run(["contracts", "check", str(bad), str(good)]) == 2
    said = capsys.readouterr()
    line = 1 + text[: text.index("status: active")].count("\n")
    assert said.err.startswith(f"{bad}:{line}:")
    assert "$.lifecycle.status" in said.err
    assert said.out.startswith(f"{good}: valid")


def test_a_file_that_is_named_after_another_engine_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Contracts and simulations are found by the name of their file, so it must be that of the engine."""
    folder = Path(load.__file__).parents[1]
    for kind in ("engines", "simulations"):
        text = (folder / kind / "codex.yaml").read_text()
        (tmp_path / "acme.yaml").write_text(text)
        assert cli.run(["contracts", "check", str(tmp_path / "acme.yaml")]) == 2
        line = 1 + text[: text.index("engine: codex")].count("\n")
        assert capsys.readouterr().err == (
            f"{tmp_path}/acme.yaml:{line}:9: $.engine: the file is called acme.yaml, but its engine is codex "
            "(rename it to codex.yaml, or correct `engine`)\n"
            f"next: correct it, and then turngate contracts check {tmp_path}/acme.yaml\n"
        )


@pytest.mark.parametrize("text, line", [("engine: [", 1), ("engine: codex\nengine: codex\n", 2)])
def test_a_file_that_is_no_document_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, line: int
) -> None:
    """A syntax error or a duplicate key is reported with its line, and the exit code is 2."""
    (tmp_path / "bad.yaml").write_text(text)
    assert cli.run(["contracts", "check", str(tmp_path / "bad.yaml")]) == 2
    assert f"{tmp_path}/bad.yaml:{line}:" in capsys.readouterr().err


def test_the_contracts_of_a_folder_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder stands for the contracts in it; one without any is refused."""
    (tmp_path / "engines").mkdir()
    for engine in ("acme", "base"):
        (tmp_path / f"engines/{engine}.yaml").write_text("engine: [")
    assert cli.run(["contracts", "check", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert all(f"{tmp_path}/engines/{engine}.yaml:1:" in said for engine in ("acme", "base"))
    (tmp_path / "none").mkdir()
    assert cli.run(["contracts", "check", str(tmp_path / "none")]) == 2
    assert "none has no contracts; they are files such as" in capsys.readouterr().err


@pytest.mark.long
@pytest.mark.nightly
def test_all_packaged_contracts_are_checked_without_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a file all bundled contracts are checked, against the recordings in --fixtures."""
    assert cli.run(["contracts", "check", "--fixtures", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert all(f"{engine}.yaml:" in said for engine in ("codex", "gemini", "opencode"))
    assert "there is no recording codex/" in said


def test_the_options_of_an_engine_are_listed_by_mode(capsys: pytest.CaptureFixture[str]) -> None:
    """Interactive mode lists the allowed options, auto mode all of them; JSON includes the evidence."""
    assert cli.run(["contracts", "options", "codex@0.169.0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == list(allowed(load.contract("codex").at("0.169.0"), Mode.INTERACTIVE))
    assert cli.run(["contracts", "options", "codex", "--mode", "auto"]) == 0
    assert "--oss" in capsys.readouterr().out.splitlines()
    assert cli.run(["contracts", "options", "codex@0.58.0", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["engine"], document["release"], document["mode"]) == ("codex", "0.58.0", "interactive")
    listed = {option["flag"]: option["interactive"] for option in document["options"]}
    assert listed["--cd"]["path"] == "workspace"
    assert not {"--oss", "--add-dir"} & listed.keys()
    assert all(use["evidence"] for use in listed.values())


def test_options_of_an_unknown_engine_or_release_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown engine or an invalid release is a usage error; the known engines are listed."""
    assert cli.run(["contracts", "options", "nope"]) == 2
    assert "engines: claude, codex" in capsys.readouterr().err
    assert cli.run(["contracts", "options", "codex@new"]) == 2
    assert capsys.readouterr().err
