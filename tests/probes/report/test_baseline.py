"""Baselines: files of expected failures."""

from collections.abc import Collection, Mapping
from pathlib import Path

import pytest

from turngate.errors import ContractError, UsageError
from turngate_probes.report.baseline import ExpectedBreach, ExpectedFailure, read

GATE = """# why we wait
- engine: codex
  clause: resume.dead-handle
  since: 0.170.0
  until: 0.172.0
  reason: mended upstream
"""
CONFORM = GATE.replace("clause: resume.dead-handle", "rule: orchestrator.stdin") + "  scenario: reads-stdin-first\n"
CLAUSES: Mapping[str, Collection[str]] = {"clause": ["resume.dead-handle"]}
RULES: Mapping[str, Collection[str]] = {"rule": ["orchestrator.stdin"], "scenario": ["reads-stdin-first"]}


def written(folder: Path, text: str) -> Path:
    """Write a baseline file."""
    path = folder / "expected.yaml"
    path.write_text(text)
    return path


def test_entries_are_read_with_their_place(tmp_path: Path) -> None:
    """Each entry knows the line at which it begins, and an empty file has none."""
    path = written(tmp_path, GATE)
    failure = ExpectedFailure("codex", "resume.dead-handle", "mended upstream", "0.170.0", "0.172.0")
    assert read(path, ExpectedFailure, CLAUSES, "") == ((failure, f"{path}:2"),)
    path.write_text(CONFORM)
    ((breach, at),) = read(path, ExpectedBreach, RULES, "")
    assert (breach.name, at) == ("orchestrator.stdin codex reads-stdin-first", f"{path}:2")
    path.write_text("# nothing\n")
    assert read(path, ExpectedBreach, RULES, "") == ()


WRONG = [
    ("codex", "kodex", 2, "unknown engine 'kodex'"),
    ("0.172.0", "0.170.0", 5, "is not after"),
    ("0.172.0", "soon", 5, "does not match"),
    ("  reason: mended upstream\n", "", 2, "'reason' is a required property"),
    ("  reason", "  reson: x\n  reason", 6, "unknown key 'reson'"),
]


@pytest.mark.parametrize(
    "old, new, line, said",
    [("resume.dead-handle", "resume.dead-handel", 3, "unknown clause 'resume.dead-handel'"), *WRONG],
)
def test_a_wrong_baseline_of_a_gate_is_refused(tmp_path: Path, old: str, new: str, line: int, said: str) -> None:
    """Each mistake is reported with file and line."""
    path = written(tmp_path, GATE.replace(old, new, 1))
    with pytest.raises(ContractError, match=said) as reported:
        read(path, ExpectedFailure, CLAUSES, "see clauses.yaml")
    assert (reported.value.file, reported.value.line) == (str(path), line)


@pytest.mark.parametrize(
    "old, new, line, said",
    [
        ("orchestrator.stdin", "orchestrator.stdni", 3, "unknown rule 'orchestrator.stdni'"),
        ("reads-stdin-first", "none", 7, "unknown scenario 'none'"),
        *WRONG,
    ],
)
def test_a_wrong_baseline_of_an_orchestrator_is_refused(
    tmp_path: Path, old: str, new: str, line: int, said: str
) -> None:
    """Each mistake is reported with file and line."""
    path = written(tmp_path, CONFORM.replace(old, new, 1))
    with pytest.raises(ContractError, match=said) as reported:
        read(path, ExpectedBreach, RULES, "see turngate conform --list")
    assert (reported.value.file, reported.value.line) == (str(path), line)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    """A missing file is an environment failure."""
    with pytest.raises(UsageError, match="can't read the baseline"):
        read(tmp_path / "none.yaml", ExpectedBreach, RULES, "")
