"""The command `conform`; its parts are tested with their modules."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.conform.orchestrators.catalogue import CORRECT
from tests.tables import each
from turngate import cli
from turngate.files import use_overlay

BROOK = Path(__file__).parents[2] / "fakes" / "brook" / "contract.yaml"


def test_a_driver_is_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its report is printed as JSON, and its records are kept."""
    driver = (sys.executable, str(CORRECT["python"]))
    kept = tmp_path / "kept"
    assert cli.run(["conform", "--json", "--scenario", "two-turns", "--keep", str(kept), "--", *driver]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["verdict"], [row["scenario"] for row in report["results"]]) == ("conforms", ["two-turns"])
    assert len(list((kept / "codex-0.169.0/two-turns/1/calls").iterdir())) == 2


def test_files_are_kept_in_a_folder_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with the files of another run is refused before anything runs."""
    (tmp_path / "codex-0.169.0").mkdir()
    for observe in ((), ("--observe",)):
        assert cli.run(["conform", *observe, "--keep", str(tmp_path), "--", "true"]) == 2
        assert "holds the files of another run: name a new folder" in capsys.readouterr().err


def test_an_observed_command_is_the_only_one(capfd: pytest.CaptureFixture[str]) -> None:
    """Its line counts one run, not the scenarios."""
    cli.run(["conform", "--observe", "--", "true"])
    shown = capfd.readouterr()
    assert "[1/1]" in shown.out + shown.err


@pytest.mark.parametrize("observe", [("--observe",), ("--scenario", "two-turns")])
def test_a_release_that_nobody_knows_is_played_with_a_warning(
    observe: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also in the report, whose reader may not see what was typed."""
    files = [tmp_path / "r.md", tmp_path / "r.html"]
    reports = [f"--report={file}" for file in files]
    cli.run(["conform", "--json", *reports, "--engine", "codex@99.0.0", "--engine", "codex", *observe, "--", "true"])
    shown = capsys.readouterr()
    note = "turngate doesn't know codex@99.0.0; it is simulated as the newest release before it that is known"
    assert shown.err.splitlines()[0] == f"Warning: {note}"
    assert json.loads(shown.out)["notes"] == [note]
    assert all("it is simulated as the newest" in file.read_text("utf-8") for file in files)


@each(
    "arguments, said",
    [
        ((), "missing COMMAND"),
        (("--scenario", "two-turn", "--list"), "did you mean two-turns"),
        (("--list", "--json"), "print text"),
        (("--interactive", "--", "true"), "--interactive needs --observe"),
        (("--observe", "--scenario", "no-id", "--", "true"), "can't be combined"),
        (("--engine", "codex=/bin/true", "--", "true"), "names an executable"),
        (("--report", "r.sarif", "--", "true"), "unknown suffix"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It is explained, with exit code 2."""
    assert cli.run(["conform", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_an_engine_without_a_known_release_needs_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a contract of the user's own, turngate asks for a release, unless one is pinned or recorded."""
    (tmp_path / "engines").mkdir()
    shutil.copy(BROOK, tmp_path / "engines" / "brook.yaml")
    try:
        assert cli.run(["--contracts", str(tmp_path), "conform", "--engine", "brook", "--", "true"]) == 2
    finally:
        use_overlay(None)
    said = "Error: no release of brook is pinned or recorded\nname one, such as --engine brook@1.0.0\n"
    assert capsys.readouterr().err == said


def test_rules_and_scenarios_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """--list names them, --show explains them."""
    assert cli.run(["conform", "--list"]) == 0
    assert "orchestrator.no-auto-approval" in capsys.readouterr().out
    assert cli.run(["conform", "--scenario", "fresh-session", "--show"]) == 0
    assert "observed: codex before 0.117.0" in capsys.readouterr().out
