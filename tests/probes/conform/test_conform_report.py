"""Verdicts and exit codes."""

from pathlib import Path

from tests.probes.conform.reports import EXCUSED, MILD, REPORT, ROWS, row
from tests.probes.conform.test_judge import call
from tests.tables import each
from turngate_probes.conform.catalogue import scenarios
from turngate_probes.conform.conform_report import (
    Conformance,
    ScenarioResult,
    ScenarioRow,
    call_row,
    excuses,
    exit_code,
    expected_breaches,
    judged,
    stale,
    verdict,
)
from turngate_probes.conform.judge import Breach
from turngate_probes.report.publish import checked

PASS, SKIP = ROWS[0], ROWS[4]


@each(
    "rows, found",
    [
        ((PASS, SKIP), Conformance.CONFORMS),
        ((PASS, row("crash", ScenarioResult.EXCUSED, EXCUSED)), Conformance.CONFORMS),
        ((PASS, row("crash", ScenarioResult.FAIL, MILD)), Conformance.DEGRADED),
        ((ROWS[3], row("crash", ScenarioResult.FAIL, MILD)), Conformance.UNANSWERED),
        (ROWS, Conformance.BROKEN),
        ((SKIP,), Conformance.UNANSWERED),
        ((), Conformance.UNANSWERED),
    ],
)
def test_the_worst_result_decides(rows: tuple[ScenarioRow, ...], found: Conformance) -> None:
    """What is skipped says nothing."""
    assert verdict(rows) is found


@each(
    "found, strict, stale, interrupted, code",
    [
        (Conformance.CONFORMS, False, ("x",), False, 0),
        (Conformance.CONFORMS, True, ("x",), False, 1),
        (Conformance.DEGRADED, False, (), False, 0),
        (Conformance.DEGRADED, True, (), False, 1),
        (Conformance.UNANSWERED, True, (), False, 2),
        (Conformance.BROKEN, False, (), False, 1),
        (Conformance.BROKEN, False, (), True, 130),
    ],
)
def test_the_exit_code(
    *, found: Conformance, strict: bool, stale: tuple[str, ...], interrupted: bool, code: int
) -> None:
    """With --strict, mild breaches and stale entries fail too."""
    assert exit_code(found, strict=strict, stale=stale, interrupted=interrupted) == code


def test_a_report_keeps_its_schema() -> None:
    """The file that --json prints is valid."""
    checked(REPORT)


def test_a_call_is_shown() -> None:
    """Long arguments are cut; a killed call has no exit code."""
    shown = call_row(call(1, "hi", argv=("x" * 1000,), ended=None, signals=("SIGTERM",)))
    assert (len(shown.argv[0]), shown.exit_code, shown.signals, shown.session) == (201, None, ("SIGTERM",), "s1")
    assert Path(shown.cwd) == Path("/work")


BASELINE = """
- {rule: orchestrator.ends-hangs, reason: its SDK has no deadline, engine: codex, until: 0.170.0}
- {rule: orchestrator.stdin, reason: it leaves stdin open, scenario: reads-stdin-first}
"""


def test_entries_of_a_baseline_excuse_breaches(tmp_path: Path) -> None:
    """An entry is for its rule, scenario, engine and releases. It is stale if these were played and did not need it."""
    file = tmp_path / "b.yaml"
    file.write_text(BASELINE)
    hangs, stdin = expected_breaches(file)
    assert excuses(hangs, "codex", "0.169.0", "anything", "orchestrator.ends-hangs")
    assert not excuses(hangs, "codex", "0.170.0", "anything", "orchestrator.ends-hangs")
    assert not excuses(hangs, "gemini", "0.1.0", "anything", "orchestrator.ends-hangs")
    assert not excuses(stdin, "codex", "0.1.0", "two-turns", "orchestrator.stdin")
    assert excuses(stdin, "codex", "0.1.0", "reads-stdin-first", "orchestrator.stdin")
    broken = judged(PASS, [Breach("orchestrator.ends-hangs", "it hung", 1)], (hangs, stdin))
    assert (broken.result, broken.breaches[0].excused) == (ScenarioResult.EXCUSED, "its SDK has no deadline")
    assert stale((hangs, stdin), [broken]) == ()
    read = row("reads-stdin-first", ScenarioResult.PASS)
    assert stale((hangs, stdin), [broken, read]) == ("orchestrator.stdin reads-stdin-first",)
    assert stale((hangs,), [read]) == ()
    everything = [row(name, ScenarioResult.PASS) for name in scenarios()]
    assert stale((hangs,), everything) == ("orchestrator.ends-hangs codex",)
