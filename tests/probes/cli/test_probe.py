"""The command `probe`; probing itself is tested with its module and end to end."""

import json
from pathlib import Path

import pytest

from tests.probes import engines
from turngate import cli, engine_names


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a separate cache for each test, outside of GitHub Actions."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


@pytest.mark.parametrize(
    "args, message",
    [
        (("kodex",), "'kodex' is not an engine"),
        (("codex", "--clause", "no.such"), "no.such"),
        (("--level", "live"), "--level live needs a target"),
        (("--level", "live", "codex", "--clause", "handle.present"), "can't be combined with --clause or --keep"),
        (("codex", "--jobs", "0"), "'--jobs'"),
    ],
)
def test_a_wrong_question_is_refused_before_anything_runs(
    args: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Invalid arguments end with exit code 2, and no file is written."""
    assert cli.run(["probe", *args]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("strict, code", [((), 0), (("--strict",), 1)])
def test_an_executable_is_probed_and_reported(strict: tuple[str, ...], code: int, tmp_path: Path) -> None:
    """A probe writes its reports, keeps sandboxes on request, and exits by the verdict."""
    target = f"codex={engines.install(tmp_path / 'bin', 'poor-help')}"
    files = ("--report", str(tmp_path / "a.json"), "--report", str(tmp_path / "a.md"), "--keep", str(tmp_path / "kept"))
    assert cli.run(["probe", "--level", "static", target, *files, *strict]) == code
    (release,) = json.loads((tmp_path / "a.json").read_text())["releases"]
    assert release["verdict"] == "degraded"
    assert {clause["id"]: clause["result"] for clause in release["clauses"]}["help.surface"] == "fail"
    assert (tmp_path / "a.md").read_text().startswith("## ")
    assert list((tmp_path / "kept").glob("**/*.ndjson"))


def test_sandboxes_are_kept_in_a_folder_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with sandboxes in it is refused, so that no earlier probe is mixed with this one."""
    (tmp_path / "codex@0.169.0").mkdir()
    assert cli.run(["probe", "--level", "static", "codex", "--keep", str(tmp_path)]) == 2
    assert "holds the sandboxes of another probe" in capsys.readouterr().err


@pytest.mark.long
def test_without_targets_what_is_there_is_probed_and_the_rest_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without targets, executables on PATH and recordings are probed; other engines are listed as skipped."""
    engines.install(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("TURNGATE_FIXTURES", raising=False)
    assert cli.run(["probe", "--level", "static", "--report", str(tmp_path / "a.json")]) == 0
    report = json.loads((tmp_path / "a.json").read_text())
    assert {row["engine"] for row in report["releases"]} == {"codex", "iflow"}
    skipped = {row["engine"]: row["why"] for row in report["skipped"]}
    assert set(skipped) == set(engine_names()) - {"codex", "iflow"}
    why = "claude is neither on PATH nor in the cache, and npm is not on PATH: install Node.js 20 or newer"
    assert skipped["claude"] == why
    assert f"skipped claude: {why}\n" in capsys.readouterr().out


def test_where_nothing_can_be_probed_the_command_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without any engine, a level that recordings can't be probed at ends with exit code 2."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.run(["probe", "--level", "server"]) == 2
    assert "no engine to probe" in capsys.readouterr().err
