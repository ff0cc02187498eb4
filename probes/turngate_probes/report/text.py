"""The final text of a probe: a line a release, whatever did not pass with its evidence, and a summary."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from turngate.contract.clauses import Result
from turngate.contract.verdict import ClauseResult
from turngate.sanitize import visible
from turngate_probes.journal.tool_access import rows
from turngate_probes.report.evidence import INDENT, Line, evidence_lines
from turngate_probes.report.structs import ProbeReport, ReleaseReport
from turngate_probes.report.wording import basis, known

MOST_TOOL_LINES = 16

MEANING = {
    0: "no release is broken and none is left unanswered",
    1: "a release is broken",
    2: "a question is left unanswered",
    3: "turngate itself failed: it can't say why a clause was not run; please report it",
    130: "interrupted",
}
STRICT = "a release is broken, or degraded or stale under --strict"
NOTHING = "there was nothing to probe"


def report_lines(report: ProbeReport, journal: Path | None) -> Iterator[Line]:
    """Return the lines of the whole report with their depth; `journal` is where its events lie."""
    releases = report.releases
    yield from ((0, line) for line in _headlines(releases))
    for release in releases:
        yield from _release(release)
    yield 0, Text()
    yield from tool_access_lines(releases)
    yield from ((0, line) for line in _summary(report, journal))


def print_line(console: Console, depth: int, line: Text) -> None:
    """Print a line at a depth, folded on a terminal alone, and never cut."""
    if not line:
        console.print()
    elif console.is_terminal:
        line.overflow = "fold"
        console.print(Padding(line, (0, 0, 0, len(INDENT) * depth), expand=False))
    else:
        console.print(Text(INDENT * depth).append_text(line), soft_wrap=True)


def _headlines(releases: Iterable[ReleaseReport]) -> list[Text]:
    table = [_cells(release) for release in releases]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    verdict_at = 2
    lines = []
    for row in table:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        line = Text(INDENT.join(padded[:verdict_at])).append(INDENT)
        line.append(padded[verdict_at], style_of(row[verdict_at]))
        line.append(INDENT + INDENT.join(padded[verdict_at + 1 :]))
        line.rstrip()
        lines.append(line)
    return lines


def _cells(release: ReleaseReport) -> tuple[str, ...]:
    return (
        visible(release.engine),
        visible(release.version or "?"),
        release.verdict,
        release.profile.kind,
        _counted(release),
        f"{release.turns} turns",
        f"{release.seconds:.1f} s",
        f"{release.engine_seconds:.1f} s CPU",
    )


def _counted(release: ReleaseReport) -> str:
    results = Counter(clause.result for clause in release.clauses)
    run = results[Result.PASS] + results[Result.FAIL] + results[Result.DEVIATES]
    apart = f", {results[Result.DEVIATES]} deviating" if results[Result.DEVIATES] else ""
    return f"{results[Result.PASS]} of {run} clauses passed{apart}{basis(release)}"


def _release(release: ReleaseReport) -> Iterator[Line]:
    told = [c for c in release.clauses if c.result != Result.PASS or c.stale]
    shared = Counter(c.detail for c in told if c.result == Result.NOT_RUN)
    remarks = list(_remarks(release))
    if not told and not remarks:
        return
    yield 0, Text()
    where = release.executable or f"from {release.source}"
    title = visible(f"{release.engine} {release.version or '?'}")
    yield 0, Text.assemble((title, "bold"), f" ({visible(where)})")
    yield from ((1, remark) for remark in remarks)
    for clause in told:
        if clause.result != Result.NOT_RUN or shared[clause.detail] == 1:
            yield from _clause(clause)
    for detail, times in shared.items():
        if times > 1:
            same = [c.id for c in told if c.result == Result.NOT_RUN and c.detail == detail]
            named = f": {', '.join(same)}" if times < len(release.clauses) else ""
            text = f"{times} of {len(release.clauses)} clauses, {detail}{named}"
            yield 1, _labelled("not_run", visible(text))


def _remarks(release: ReleaseReport) -> Iterator[Text]:
    failed = release.failed
    if failed:
        hint = f" ({visible(failed.hint)})" if failed.hint else ""
        yield _labelled("not asked", visible(failed.what) + hint)
    if release.note:
        yield Text(f"note: {visible(release.note)}")
    if release.unverified:
        yield Text("unverified in the contract: " + ", ".join(map(visible, release.unverified)))


def _clause(clause: ClauseResult) -> Iterator[Line]:
    entry = known(clause.id)
    state = clause.result if clause.result is not Result.PASS else "stale"
    yield 1, _labelled(state, visible(clause.id) + (f": {entry.sentence}" if entry else ""))
    yield 2, Text(visible(clause.detail))
    if clause.result is Result.FAIL:
        if entry:
            yield 2, Text(f"why: {entry.why}")
        for evidence in clause.evidence:
            yield from evidence_lines(evidence)


def _labelled(word: str, rest: str) -> Text:
    return Text.assemble((word.replace("_", " "), style_of(word)), f" {rest}")


def tool_access_lines(releases: Iterable[ReleaseReport]) -> Iterator[Line]:
    """Return what each mode offers the model, and what becomes of a call, with a blank line after it."""
    listed = [(release.release, row) for release in releases for row in rows(release.tool_access)]
    if listed:
        yield 0, Text("tools available per approval mode, and what becomes of a call:")
    for name, row in listed[:MOST_TOOL_LINES]:
        offered = f"tools offered: {row.offered}{f' ({row.alone})' if row.alone else ''}"
        ended = f", exit code {row.code}" if row.code else ""
        yield 1, Text(visible(f"{name} {row.mode}: {offered}; {row.call}{ended}"))
    if len(listed) > MOST_TOOL_LINES:
        yield 1, Text(f"and {len(listed) - MOST_TOOL_LINES} more in the reports")
    if listed:
        yield 0, Text()


def _summary(report: ProbeReport, journal: Path | None) -> Iterator[Text]:
    wall, engines, cores = report.seconds, report.engine_seconds, report.cores
    ratio = f", wall / (CPU / cores) = {wall * cores / engines:.2f}" if engines else ""
    if peak := report.peak_usage:
        most = f"{peak.cache_bytes / 1e9:.2f} GB of disk for releases, {peak.memory_bytes / 1e9:.2f} GB of memory"
        yield Text(f"at most at one time: {most} (sum of resident sets)")
    if report.interrupted:
        yield Text("interrupted: this is what was known by then", style_of("not_run"))
    yield Text(
        f"{wall:.1f} s wall, {engines:.1f} s CPU by engines, {cores} cores{ratio}; "
        f"exit code {report.exit_code}: {meaning(report)}{f'; journal: {visible(str(journal))}' if journal else ''}"
    )


def meaning(report: ProbeReport) -> str:
    """Return what the exit code means."""
    if not report.releases and not report.interrupted:
        return NOTHING
    return STRICT if report.strict and report.exit_code == 1 else MEANING[report.exit_code]


STYLES = dict.fromkeys(("broken", "fail", "crashed", "breaking"), "bold red")
STYLES |= dict.fromkeys(("degraded", "deviates", "unsupported"), "yellow") | {"stale": "cyan"}
STYLES |= dict.fromkeys(("unanswered", "not_run", "skipped", "not asked", "interrupted"), "magenta")


def style_of(word: str) -> str:
    """Return the style of a verdict, result, outcome or impact; none for other words."""
    return STYLES.get(word, "")
