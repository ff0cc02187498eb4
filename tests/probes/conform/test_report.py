"""Verdicts and exit codes."""

from pathlib import Path

import pytest

from tests.probes.conform.reports import EXCUSED, FAILED, MILD, REPORT, ROWS, row
from tests.probes.conform.test_judge import call
from turngate_probes.conform.report import Conformance, Result, ScenarioRow, call_row, exit_code, severity_of, verdict
from turngate_probes.report.publish import checked

PASS, SKIP = ROWS[0], ROWS[4]


@pytest.mark.parametrize(
    "rows, found",
    [
        ((PASS, SKIP), Conformance.CONFORMS),
        ((PASS, row("crash", Result.EXCUSED, EXCUSED)), Conformance.CONFORMS),
        ((PASS, row("crash", Result.FAIL, MILD)), Conformance.DEGRADED),
        ((ROWS[3], row("crash", Result.FAIL, MILD)), Conformance.UNANSWERED),
        (ROWS, Conformance.BROKEN),
        ((SKIP,), Conformance.UNANSWERED),
        ((), Conformance.UNANSWERED),
    ],
)
def test_the_worst_result_decides(rows: tuple[ScenarioRow, ...], found: Conformance) -> None:
    """What is skipped says nothing."""
    assert verdict(rows) is found


@pytest.mark.parametrize(
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
    assert severity_of(FAILED.rule) == FAILED.severity
    assert Path(shown.cwd) == Path("/work")
