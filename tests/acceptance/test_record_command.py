"""`turngate contracts record` end to end, on the fake engine."""

from pathlib import Path

import pytest

from tests.acceptance.command import Command
from tests.probes import engines


@pytest.fixture(name="turngate")
def _turngate(tmp_path: Path) -> Command:
    """Return the command, with no engine and no npm on PATH."""
    empty = tmp_path / "empty"
    empty.mkdir()
    return Command(tmp_path, str(empty))


@pytest.mark.long
def test_a_release_is_recorded_where_it_is_asked(turngate: Command) -> None:
    """Each turn of the chosen cases has a folder, and the command prints how many."""
    executable = engines.install(turngate.folder / "engine")
    done = turngate.run(
        "contracts", "record", f"codex={executable}", "--case", "final", "--case", "bad-handles", "--into", "there"
    )
    assert done.code == 0, done.err
    assert "codex@0.169.0: 4 turns and pages in there/codex/0.169.0" in done.out
    folder = turngate.folder / "there/codex/0.169.0"
    assert sorted(path.name for path in folder.iterdir()) == [
        "bad-handles-dead",
        "bad-handles-first",
        "bad-handles-malformed",
        "final-first",
    ]
    assert sorted(path.name for path in (folder / "final-first").iterdir()) == [
        "provenance.yaml",
        "recording.yaml",
        "requests.ndjson",
        "stderr",
        "stdout",
    ]


@pytest.mark.long
def test_a_case_that_ended_early_is_told(turngate: Command) -> None:
    """A case that could not be fully recorded is reported, but doesn't fail the command."""
    executable = engines.install(turngate.folder / "engine", "renames-id")
    done = turngate.run("contracts", "record", f"codex={executable}", "--case", "main", "--into", "there")
    assert done.code == 0, done.err
    assert "main ended early: the previous turn reported no session id" in done.out


@pytest.mark.long
def test_one_release_that_cannot_be_had_leaves_the_others(turngate: Command) -> None:
    """A failed target is reported with exit code 2, and the next one is recorded."""
    executable = engines.install(turngate.folder / "engine")
    done = turngate.run(
        "contracts",
        "record",
        f"codex={turngate.folder}/none",
        f"codex={executable}",
        "--case",
        "final",
        "--into",
        "there",
    )
    assert done.code == 2
    assert "there is no executable" in done.err
    assert (turngate.folder / "there/codex/0.169.0/final-first/stdout").is_file()


@pytest.mark.long
def test_an_unknown_case_is_a_usage_error(turngate: Command) -> None:
    """An unknown case is a usage error that lists the cases."""
    done = turngate.run("contracts", "record", "codex", "--case", "nonsense")
    assert done.code == 2
    assert "unknown case: nonsense" in done.err
    assert "later-minute" in done.err
