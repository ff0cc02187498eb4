"""Baselines of expected breaches."""

from pathlib import Path

import pytest

from turngate import ContractError, EnvironmentFailed
from turngate_probes.conform.baseline import ExpectedBreach, read, stale
from turngate_probes.conform.judge import Breach

TEXT = """
- {rule: orchestrator.ends-hangs, reason: its SDK has no deadline, engine: codex, until: 0.170.0}
- {rule: orchestrator.stdin, reason: it leaves stdin open, scenario: reads-stdin-first}
"""


def test_entries_excuse_breaches(tmp_path: Path) -> None:
    """Of their rule, scenario, engine and releases."""
    file = tmp_path / "b.yaml"
    file.write_text(TEXT)
    hangs, stdin = read(file)
    assert hangs.covers("codex", "0.169.0", "anything", Breach("orchestrator.ends-hangs", ""))
    assert not hangs.covers("codex", "0.170.0", "anything", Breach("orchestrator.ends-hangs", ""))
    assert not hangs.covers("gemini", "0.1.0", "anything", Breach("orchestrator.ends-hangs", ""))
    assert not stdin.covers("codex", "0.1.0", "two-turns", Breach("orchestrator.stdin", ""))
    assert stdin.covers("codex", "0.1.0", "reads-stdin-first", Breach("orchestrator.stdin", ""))
    assert stale((hangs, stdin), [hangs]) == ("orchestrator.stdin reads-stdin-first",)


@pytest.mark.parametrize(
    "text, said",
    [
        ("- {rule: orchestrator.ends-hang, reason: r}", "unknown rule 'orchestrator.ends-hang'"),
        ("- {rule: orchestrator.stdin, reason: r, scenario: none}", "unknown scenario 'none'"),
        ("- {rule: orchestrator.stdin}", "reason"),
    ],
)
def test_a_wrong_baseline_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """With its place."""
    file = tmp_path / "b.yaml"
    file.write_text(text)
    with pytest.raises(ContractError, match=said) as refused:
        read(file)
    assert refused.value.line == 1


def test_an_empty_baseline_and_a_missing_one(tmp_path: Path) -> None:
    """The first is valid."""
    file = tmp_path / "b.yaml"
    file.write_text("")
    assert read(file) == ()
    with pytest.raises(EnvironmentFailed, match="can't read the baseline"):
        read(tmp_path / "none.yaml")
    assert ExpectedBreach("orchestrator.stdin", "r").name == "orchestrator.stdin"
