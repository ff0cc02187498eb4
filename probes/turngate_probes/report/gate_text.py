"""The text of a gate: the outcome and its reasons, what differs, what must change, and the tools of each mode."""

from collections.abc import Iterable, Iterator

from rich.text import Text

from turngate.contract.clauses import Result
from turngate.sanitize import bounded, visible
from turngate_probes.report.evidence import Line, evidence_lines
from turngate_probes.report.gate_structs import Difference, GateOutcome, GateReport, Impact
from turngate_probes.report.text import style_of, tool_access_lines

TITLES = {
    GateOutcome.PASS: "may take the place of",
    GateOutcome.FAIL: "must not take the place of",
    GateOutcome.UNANSWERED: "could not be asked everything about taking the place of",
    GateOutcome.CRASHED: "was not judged, since turngate itself failed, about taking the place of",
    GateOutcome.INTERRUPTED: "was not asked to the end about taking the place of",
}
LONGEST = 240
MOST_OF_A_KIND = 12


def title(report: GateReport) -> str:
    """Say in one sentence what a reader wants to know first."""
    return visible(f"{report.new.release} {TITLES[report.outcome]} {report.old.release}")


def gate_lines(report: GateReport) -> Iterator[Line]:
    """Return the lines with their depth; only differences that cost something are printed one by one."""
    yield 0, Text(title(report), style_of(report.outcome))
    yield from ((1, Text(visible(bounded(reason, LONGEST)))) for reason in report.reasons)
    yield 0, Text()
    yield 0, Text(visible(report.must))
    for impact in (Impact.BREAKING, Impact.DEGRADED, Impact.ADDITIVE):
        yield from _differences(impact, [row for row in report.differences if row.impact is impact])
    yield from _failing(report)
    yield 0, Text()
    yield from tool_access_lines(report.probe.releases)
    for entry in report.baseline.entries:
        yield 0, Text(visible(f"baseline: {entry.clause} {entry.state.replace('_', ' ')} ({entry.reason})"))
    counts = ", ".join(f"{count} {impact}" for impact, count in report.counts.items() if count)
    yield 0, Text(f"differences: {counts or 'none'}; {report.seconds:.1f} s; exit code {report.exit_code}")


def apart(differences: Iterable[Difference]) -> tuple[list[Difference], list[str]]:
    """Take out the clauses that only fell with others that they need, and give their names."""
    listed = list(differences)
    fallen = [row.subject for row in listed if (row.kind, row.after) == ("clause", Result.NOT_RUN)]
    return [row for row in listed if row.kind != "clause" or row.subject not in fallen], fallen


def _differences(impact: Impact, listed: list[Difference]) -> Iterator[Line]:
    shown, fallen = apart(listed)
    if listed:
        yield 0, Text()
        yield 0, Text(impact, style_of(impact))
    yield from ((1, Text(visible(bounded(_difference(row), LONGEST)))) for row in shown[:MOST_OF_A_KIND])
    if len(shown) > MOST_OF_A_KIND:
        yield 1, Text(f"and {len(shown) - MOST_OF_A_KIND} more that are {impact}")
    if fallen:
        yield 1, Text(f"not to be asked any more: {', '.join(fallen)}")


def _difference(row: Difference) -> str:
    change = f"{row.before or 'nothing'} → {row.after or 'nothing'}"
    if row.before is None or row.after is None:
        change = "new" if row.before is None else "gone"
    return f"{row.kind} {row.subject}: {change}: {row.detail}"


def _failing(report: GateReport) -> Iterator[Line]:
    """Show what failed in the newer release, with its evidence."""
    for clause in report.judged.clauses:
        if clause.result is Result.FAIL:
            yield 0, Text()
            yield 0, Text.assemble(("fail", style_of("fail")), visible(f" {clause.id}: {clause.detail}"))
            for evidence in clause.evidence:
                yield from evidence_lines(evidence)
