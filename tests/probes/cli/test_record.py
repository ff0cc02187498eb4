"""The command `contracts record`; the acceptance tests record a whole release."""

from pathlib import Path

import pytest

from tests.probes import engines
from turngate import cli
from turngate_probes.cli import record
from turngate_probes.report.progress import HEARTBEAT


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A separate cache for each test."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))


def test_an_unknown_case_is_refused_with_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown case is rejected before anything runs, with the list of known cases."""
    assert cli.run(["contracts", "record", "codex", "--case", "nonsense"]) == 2
    said = capsys.readouterr().err
    assert "unknown case: nonsense" in said
    assert "main" in said


def test_one_release_that_can_not_be_recorded_stops_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If one release can't be recorded, the others still are, and the exit code is 2."""
    executable = engines.install(tmp_path / "bin")
    targets = (f"codex={tmp_path}/none", f"codex={executable}")
    assert cli.run(["contracts", "record", *targets, "--case", "final", "--into", str(tmp_path / "there")]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(f"codex={tmp_path}/none: there is no executable")
    assert said.out.startswith("codex@0.169.0: ")
    assert (tmp_path / "there/codex/0.169.0/final-first/recording.yaml").is_file()


def test_outside_a_checkout_the_folder_must_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Outside a checkout, recording without --into is rejected and writes nothing."""
    executable = engines.install(tmp_path / "bin")
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert cli.run(["contracts", "record", f"codex={executable}", "--case", "final"]) == 2
    assert "pass a folder for the recordings with --into DIR" in capsys.readouterr().err
    assert not list((tmp_path / "work").iterdir())


def test_a_recording_that_goes_on_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """A turn that hangs is silent until its deadline."""
    assert record._still("codex@0.169.0") == HEARTBEAT
    assert capsys.readouterr().err.startswith("codex@0.169.0: still recording")
