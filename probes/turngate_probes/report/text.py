"""The final text of a probe: a line a release, whatever did not pass with its evidence, and a summary."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from turngate.contract.clauses import Clause, Result
from turngate.contract.evidence import CallEvidence, Evidence, OutputExcerpt, RequestExcerpt, TurnEvidence
from turngate.contract.load import catalogue
from turngate.contract.verdict import ClauseResult
from turngate.sanitize import bounded, command_line, visible, visible_lines
from turngate_probes.journal.tool_access import ToolAccessRow as PriceRow
from turngate_probes.journal.tool_access import rows as price_rows
from turngate_probes.report.structs import ProbeReport, ReleaseReport

WORD = 200
COMMAND = 1500
EXCERPT = 1600
MOST_REQUESTS = 4
MOST_PRICES = 16
INDENT = "  "

MEANING = {
    0: "no release is broken and none is left unanswered",
    1: "a release is broken",
    2: "a question is left unanswered",
    3: "turngate itself failed: it can't say why a clause was not run; please report it",
    130: "interrupted",
}
STRICT = "a release is broken, or degraded or stale under --strict"
NOTHING = "there was nothing to probe"


def print_report(console: Console, report: ProbeReport, journal: Path) -> None:
    """Print the whole report; lines are folded on a terminal alone, and never cut."""
    releases = report.releases
    for line in _headlines(releases):
        print_line(console, 0, line)
    for release in releases:
        for depth, line in _release(release):
            print_line(console, depth, line)
    print_line(console, 0, Text())
    for line in (*_prices(releases), *_summary(report, journal)):
        print_line(console, 0, line)


def print_line(console: Console, depth: int, line: Text) -> None:
    """Print a line at a depth, folded on a terminal alone."""
    if not line:
        console.print()
    elif console.is_terminal:
        line.overflow = "fold"
        console.print(Padding(line, (0, 0, 0, len(INDENT) * depth), expand=False))
    else:
        console.print(Text(INDENT * depth).append_text(line), soft_wrap=True)


def _headlines(releases: Iterable[ReleaseReport]) -> list[Text]:
    rows = [_cells(release) for release in releases]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    verdict_at = 2
    lines = []
    for row in rows:
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
    found = Counter(clause.result for clause in release.clauses)
    run = found[Result.PASS] + found[Result.FAIL] + found[Result.DEVIATES]
    apart = f", {found[Result.DEVIATES]} deviating" if found[Result.DEVIATES] else ""
    return f"{found[Result.PASS]} of {run} clauses passed{apart}{basis(release)}"


def basis(release: ReleaseReport) -> str:
    """Return what is added to a verdict that rests on recordings, empty where the release was run."""
    return ", from recordings" if release.source == "recordings" else ""


def _release(release: ReleaseReport) -> Iterator[tuple[int, Text]]:
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
            yield (
                1,
                _labelled("not_run", visible(f"{times} of {len(release.clauses)} clauses, {detail}{named}")),
            )


def _remarks(release: ReleaseReport) -> Iterator[Text]:
    failed = release.failed
    if failed:
        hint = f" ({visible(failed.hint)})" if failed.hint else ""
        yield _labelled("not asked", visible(failed.what) + hint)
    if release.note:
        yield Text(f"note: {visible(release.note)}")
    if release.unverified:
        yield Text("unverified in the contract: " + ", ".join(map(visible, release.unverified)))


def _clause(clause: ClauseResult) -> Iterator[tuple[int, Text]]:
    known = next((c for c in catalogue().clauses if c.id == clause.id), None)
    state = clause.result if clause.result != Result.PASS else "stale"
    yield 1, _labelled(state, f"{visible(clause.id)}: {_sentence(known)}".removesuffix(": "))
    yield 2, Text(visible(clause.detail))
    if clause.result != Result.FAIL:
        return
    if known:
        yield 2, Text(f"why: {known.why}")
    for each in clause.evidence:
        yield from evidence_lines(each)


def _sentence(clause: Clause | None) -> str:
    return clause.sentence if clause else ""


def evidence_lines(evidence: Evidence) -> Iterator[tuple[int, Text]]:
    """Tell a turn that shows something: how it ended, its command, streams and requests."""
    if isinstance(evidence, str):
        yield 2, Text(f"turn {visible(evidence)}")
        return
    if isinstance(evidence, CallEvidence):
        yield from _call(evidence)
        return
    code = "none" if evidence.exit_code is None else evidence.exit_code
    yield 2, Text(visible(f"turn {evidence.turn}: ended by {evidence.ended}, exit code {code}"))
    yield 3, Text("$ " + bounded(command_line(evidence.argv, WORD), COMMAND))
    yield from _stream("stdout", evidence.stdout)
    yield from _stream("stderr", evidence.stderr)
    yield from _requests(evidence)


def _call(call: CallEvidence) -> Iterator[tuple[int, Text]]:
    yield 2, Text(visible(f"call {call.call}: {call.method} {call.path}, answered {call.status}"))
    for label, text in (("sent", call.sent), ("answer", call.answer)):
        if text is not None:
            yield 3, Text(visible(f"{label}: {bounded(text, EXCERPT)}"))


def _stream(name: str, stream: OutputExcerpt) -> Iterator[tuple[int, Text]]:
    yield 3, Text(f"{name}: {stream.bytes} bytes" if stream.bytes else f"{name}: empty")
    if stream.excerpt.strip():
        yield from ((4, Text(line)) for line in visible_lines(bounded(stream.excerpt, EXCERPT)))


def _requests(evidence: TurnEvidence) -> Iterator[tuple[int, Text]]:
    requests = evidence.requests
    if requests is None:
        return
    if not requests:
        yield 3, Text("the backend saw no request")
    for request in requests[:MOST_REQUESTS]:
        yield 3, Text(_request(request))
    more = (evidence.requests_seen or 0) - min(len(requests), MOST_REQUESTS)
    if more:
        yield 3, Text(f"and {more} more requests")


def _request(request: RequestExcerpt) -> str:
    kind, model = request.protocol or "unknown path", request.model or "none"
    said = request.last_user_text
    parts = [
        f"request: {request.method} {bounded(request.path, WORD)} ({kind}, model {model})",
        f"nonces {' '.join(request.nonces) or 'none'}",
        f"last user text {'none' if said is None else repr(bounded(said, WORD))}",
        f"answered: {request.reply}",
    ]
    return visible("; ".join(parts))


def _labelled(word: str, rest: str) -> Text:
    return Text.assemble((word.replace("_", " "), style_of(word)), f" {rest}")


def _prices(releases: Iterable[ReleaseReport]) -> Iterator[Text]:
    listed = [(release.release, row) for release in releases for row in price_rows(release.tool_access)]
    if listed:
        yield Text("the price of not acting unasked, by the tools that the model is offered and a call of one:")
    for name, row in listed[:MOST_PRICES]:
        yield Text(visible(f"{INDENT}{name} {row.mode}: {offered(row)}; {row.call}{ended(row)}"))
    if len(listed) > MOST_PRICES:
        yield Text(f"{INDENT}and {len(listed) - MOST_PRICES} more in the reports")
    if listed:
        yield Text()


def offered(row: PriceRow) -> str:
    """Return which tools a mode offers."""
    return f"tools offered: {row.offered}{f' ({row.alone})' if row.alone else ''}"


def ended(row: PriceRow) -> str:
    """Return how the turn of a call ended, if one was seen."""
    return f", exit code {row.code}" if row.code else ""


def _summary(report: ProbeReport, journal: Path) -> Iterator[Text]:
    wall, engines, cores = report.seconds, report.engine_seconds, report.cores
    ratio = f", wall / (CPU / cores) = {wall * cores / engines:.2f}" if engines else ""
    if peaks := report.peak_usage:
        most = f"{peaks.cache_bytes / 1e9:.2f} GB of disk for releases, {peaks.memory_bytes / 1e9:.2f} GB of memory"
        yield Text(f"at most at one time: {most} (sum of resident sets)")
    if report.interrupted:
        yield Text("interrupted: this is what was known by then", style_of("not_run"))
    yield Text(
        f"{wall:.1f} s wall, {engines:.1f} s CPU by engines, {cores} cores{ratio}; "
        f"exit code {report.exit_code}: {meaning(report)}; journal: {visible(str(journal))}"
    )


def meaning(report: ProbeReport) -> str:
    """Return what the exit code means."""
    if not report.releases and not report.interrupted:
        return NOTHING
    return STRICT if report.strict and report.exit_code == 1 else MEANING[report.exit_code]


STYLES = {
    "compatible": "green",
    "degraded": "yellow",
    "unanswered": "magenta",
    "broken": "bold red",
    "fail": "bold red",
    "deviates": "yellow",
    "unsupported": "yellow",
    "not_run": "magenta",
    "skipped": "magenta",
    "stale": "cyan",
    "not asked": "magenta",
}


def style_of(word: str) -> str:
    """Return the style of a verdict or result; none for other words."""
    return STYLES.get(word, "")
