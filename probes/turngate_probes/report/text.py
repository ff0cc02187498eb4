"""The text of a report: a line for each release or the outcome of a gate, problems, actions, evidence, a summary."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from turngate.contract.clauses import Result
from turngate.sanitize import bounded, visible
from turngate_probes.report.problems import (
    INDENT,
    Detail,
    Line,
    evidence_lines,
    failure_evidence,
    labelled,
    named,
    problem_lines,
    style_of,
)
from turngate_probes.report.structs import Difference, GateReport, Impact, ProbeReport, ReleaseReport
from turngate_probes.report.view import ACTIONS, View, basis, counted, duration, known, profile_of, version_of, view

MOST_TOOL_LINES = 16
MOST_OF_A_KIND = 12
LONGEST = 240


def print_line(console: Console, depth: int, line: Text) -> None:
    """Print a line at a depth; it is wrapped only on a terminal, and never cut."""
    if not line:
        console.print()
    elif console.is_terminal:
        line.overflow = "fold"
        console.print(Padding(line, (0, 0, 0, len(INDENT) * depth), expand=False))
    else:
        console.print(Text(INDENT * depth).append_text(line), soft_wrap=True)


def report_lines(
    report: ProbeReport | GateReport, journal: Path | None, detail: Detail = Detail.NORMAL
) -> Iterator[Line]:
    """Return the lines of a whole report with their depth; `journal` is the path of its events."""
    shown, before = view(report), True
    for line in _of_gate(shown.gate, shown, detail) if shown.gate else _of_probe(shown.probe, shown, journal, detail):
        if before or line[1]:  # a missing part leaves no second blank line
            yield line
        before = bool(line[1])


def _of_probe(report: ProbeReport, shown: View, journal: Path | None, detail: Detail) -> Iterator[Line]:
    yield from _headlines(report.releases)
    yield from problem_lines(report, detail)
    if detail is Detail.QUIET:
        return
    yield 0, Text()
    yield from _actions(shown, len(report.releases))
    yield from failure_evidence(report, detail)
    yield from _tool_access(shown)
    if peak := report.peak_usage:
        most = f"{peak.cache_bytes / 1e9:.2f} GB of disk for releases, {peak.memory_bytes / 1e9:.2f} GB of memory"
        yield 0, Text(f"peak usage: {most} (sum of resident sets)")
    if report.interrupted:
        yield 0, Text("interrupted, so the results are incomplete", style_of("interrupted"))
    if journal:
        yield 0, Text(f"journal: {visible(str(journal))}")
    yield 0, Text(f"exit code {report.exit_code}: {shown.meaning}")
    if detail is Detail.VERBOSE:
        yield from _cpu(report)
    yield 0, Text(f"{duration(report.seconds)}; the engines used {duration(report.engine_seconds)} of CPU time")


def _of_gate(report: GateReport, shown: View, detail: Detail) -> Iterator[Line]:
    """Return the lines of a gate; differences without consequences are only counted."""
    yield 0, Text(shown.headline, style_of(report.outcome))
    yield from ((1, _shortened(reason)) for reason in report.reasons)
    if detail is Detail.QUIET:
        return
    yield 0, Text()
    yield from _actions(shown, 1)
    for impact in (Impact.BREAKING, Impact.DEGRADED, Impact.ADDITIVE):
        yield from _differences(impact, *(_having(impact, rows) for rows in (shown.differences, shown.fallen)))
    for clause in report.judged.clauses:
        if clause.result is Result.FAIL:
            yield 0, Text()
            yield 0, labelled("fail", visible(f"{clause.id}: {clause.detail}"))
            if catalogued := known(clause.id):
                yield 1, Text(f"why: {catalogued.why}")
            for evidence in clause.evidence:
                yield from evidence_lines(evidence)
    yield 0, Text()
    yield from _tool_access(shown)
    for entry in report.baseline.entries:
        yield 0, Text(visible(f"baseline: {entry.clause} {entry.state.replace('_', ' ')} ({entry.reason})"))
    if detail is Detail.VERBOSE:
        yield from problem_lines(report.probe, detail)
        yield 0, Text()
        yield from _cpu(report.probe)
    counts = ", ".join(f"{count} {impact}" for impact, count in report.counts.items() if count)
    yield 0, Text(f"differences: {counts or 'none'}")
    yield 0, Text(f"exit code {report.exit_code}: {shown.meaning}")
    yield 0, Text(duration(report.seconds))


def _headlines(releases: Iterable[ReleaseReport]) -> Iterator[Line]:
    table = [_cells(release) for release in releases]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for cells in table:
        padded = (Text(cell.ljust(width), style_of(cell)) for cell, width in zip(cells, widths, strict=True))
        line = Text(INDENT).join(padded)
        line.rstrip()
        yield 0, line


def _cells(release: ReleaseReport) -> tuple[str, ...]:
    return (
        visible(release.engine),
        version_of(release),
        release.verdict or "no verdict",
        counted(release) + basis(release),
        profile_of(release),
        duration(release.seconds),
    )


def _cpu(report: ProbeReport) -> Iterator[Line]:
    """Return how much of the cores the engines used."""
    per_core = report.engine_seconds / report.cores
    ratio = f"; the wall time is {report.seconds / per_core:.2f} times as long" if per_core else ""
    cores = f"{report.cores} core{'s' * (report.cores != 1)}"
    yield 0, Text(f"{cores}: {duration(per_core)} of CPU time per core{ratio}")


def _actions(shown: View, releases: int) -> Iterator[Line]:
    """Return what an orchestrator must do, with a blank line after it."""
    if not shown.actions and not shown.remaining:
        return
    yield 0, Text(ACTIONS, "bold")
    if shown.remaining:
        yield 1, Text(shown.remaining)
    for action in shown.actions:
        where = f" ({named(action.releases)})" if releases > 1 else ""
        mark = "new: " if action.new else ""
        yield 1, Text(visible(f"{mark}{action.about}: {action.text}{where}"))
    yield 0, Text()


def _shortened(text: str) -> Text:
    return Text(visible(bounded(text, LONGEST)))


def _having(impact: Impact, differences: Iterable[Difference]) -> list[Difference]:
    return [row for row in differences if row.impact is impact]


def _differences(impact: Impact, listed: list[Difference], fallen: list[Difference]) -> Iterator[Line]:
    if listed or fallen:
        yield 0, Text()
        yield 0, Text(impact, style_of(impact))
    for row in listed[:MOST_OF_A_KIND]:
        change = f"{row.before or 'nothing'} → {row.after or 'nothing'}"
        if row.before is None or row.after is None:
            change = "new" if row.before is None else "gone"
        yield 1, _shortened(f"{row.kind} {row.subject}: {change}: {row.detail}")
    if len(listed) > MOST_OF_A_KIND:
        yield 1, Text(f"and {len(listed) - MOST_OF_A_KIND} more that are {impact}")
    if fallen:
        yield 1, Text(f"no longer testable: {', '.join(row.subject for row in fallen)}")


def _tool_access(shown: View) -> Iterator[Line]:
    """Return the tools offered in each mode and the outcome of a call, with a blank line after them."""
    listed = shown.tool_access
    if not listed:
        return
    yield 0, Text("tools available per approval mode, and the outcome of a tool call:")
    for release, row in listed[:MOST_TOOL_LINES]:
        offered = f"tools offered: {row.offered}{f' ({row.alone})' if row.alone else ''}"
        ended = f", exit code {row.code}" if row.code else ""
        yield 1, Text(visible(f"{release.release} {row.mode}: {offered}; {row.call}{ended}"))
    if len(listed) > MOST_TOOL_LINES:
        yield 1, Text(f"and {len(listed) - MOST_TOOL_LINES} more in the reports")
    yield 0, Text()
