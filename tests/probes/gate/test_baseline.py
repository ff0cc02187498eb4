"""The baseline: the file of expected failures."""

from pathlib import Path

import pytest

from turngate.contract.clauses import Result
from turngate.errors import ContractError, EnvironmentFailed
from turngate_probes.gate import baseline

GOOD = """# why we wait
- engine: codex
  clause: resume.dead-handle
  since: 0.170.0
  until: 0.172.0
  reason: mended upstream
"""


def written(folder: Path, text: str) -> Path:
    """Write a baseline file."""
    path = folder / "expected.yaml"
    path.write_text(text)
    return path


def test_entries_concern_releases_in_their_range(tmp_path: Path) -> None:
    """An entry applies to its engine from `since` up to, but not including, `until`, and knows its line."""
    path = written(tmp_path, GOOD)
    (entry,) = entries = baseline.read(path, "codex")
    assert entry.at == f"{path}:2"
    covered = [v for v in ("0.169.0", "0.170.0", "0.171.9", "0.172.0") if baseline.concerning(entries, v)]
    assert covered == ["0.170.0", "0.171.9"]
    assert baseline.read(path, "gemini") == ()
    assert baseline.read(written(tmp_path, "# nothing\n"), "codex") == ()


def test_a_tool_that_runs_unasked_may_be_excused_by_a_name_of_its_own(tmp_path: Path) -> None:
    """An unasked tool call has its own name, so that excusing it does not excuse the clause on auto flags."""
    (entry,) = baseline.read(written(tmp_path, GOOD.replace("resume.dead-handle", "interactive.tool-call")), "codex")
    assert entry.clause == baseline.UNASKED


@pytest.mark.parametrize(
    "old, new, line, said",
    [
        ("resume.dead-handle", "resume.dead-handel", 3, "unknown clause"),
        ("codex", "kodex", 2, "unknown engine"),
        ("0.172.0", "0.170.0", 5, "is not after"),
        ("0.172.0", "soon", 5, "does not match"),
        ("  reason: mended upstream\n", "", 2, "'reason' is a required property"),
        ("  reason", "  reson: x\n  reason", 6, "unknown key 'reson'"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(tmp_path: Path, old: str, new: str, line: int, said: str) -> None:
    """Each mistake is reported with file and line."""
    path = written(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(ContractError, match=said) as told:
        baseline.read(path, "codex")
    assert (told.value.file, told.value.line) == (str(path), line)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    """A missing file is an environment failure."""
    with pytest.raises(EnvironmentFailed, match="can't read"):
        baseline.read(tmp_path / "none.yaml", "codex")


@pytest.mark.parametrize(
    "result, breaks, said",
    [
        (Result.FAIL, False, "excuses"),
        (Result.PASS, False, "passes"),
        (Result.DEVIATES, False, "passes"),
        (Result.PASS, True, "excuses"),
        (Result.NOT_RUN, False, "not_asked"),
    ],
)
def test_an_entry_excuses_until_its_clause_passes(result: Result, said: str, *, breaks: bool) -> None:
    """An entry is obsolete once its clause passes, unless what it is about still breaks."""
    assert baseline.state(result, named=breaks) == said
