"""Reports to render."""

from turngate.contract.clauses import Severity
from turngate_probes.conform.conform_report import (
    BreachRow,
    CallRow,
    Conformance,
    ConformReport,
    ScenarioResult,
    ScenarioRow,
)

FAILED = BreachRow("orchestrator.ends-hangs", Severity.BREAKING, "it was still running | after 25 s\n", 2, None)
MILD = BreachRow("orchestrator.reads-any-output", Severity.DEGRADED, "it printed nothing", 0, None)
EXCUSED = BreachRow("orchestrator.stdin", Severity.BREAKING, "an open pipe", 1, "known")
CALL = CallRow(
    number=1,
    kind="turn",
    argv=("exec", "-"),
    cwd="/work",
    stdin="pipe",
    stdin_closed=True,
    resumed=None,
    session="s1",
    exit_code=0,
    signals=(),
    stderr="Not inside a trusted directory",
)


def row(scenario: str, result: ScenarioResult, *broken: BreachRow, detail: str = "") -> ScenarioRow:
    """Return the result of a scenario."""
    return ScenarioRow("codex", "0.169.0", scenario, result, detail, 1.5, (0,), broken, (CALL,))


ROWS = (
    row("two-turns", ScenarioResult.PASS),
    row("hang-before-answer", ScenarioResult.FAIL, FAILED),
    row("reads-stdin-first", ScenarioResult.EXCUSED, EXCUSED),
    row("crash", ScenarioResult.UNANSWERED, detail="never started"),
    row("three-turns", ScenarioResult.SKIPPED, detail="no second reply"),
)
REPORT = ConformReport(
    turngate="0.1.0",
    mode="simulated",
    command=("python", "driver.py"),
    started_at="2026-01-01T00:00:00+00:00",
    seconds=9.5,
    interrupted=False,
    verdict=Conformance.BROKEN,
    exit_code=1,
    stale=("orchestrator.stdin",),
    results=ROWS,
)
