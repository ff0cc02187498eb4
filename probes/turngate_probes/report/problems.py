"""Problems of each release as lines of text: failures, open clauses, then stale, missing and not run ones.

Each has its evidence: what turns and calls showed, as long as the command's output may be.
"""

import errno
import io
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Never

from rich.console import Console
from rich.text import Text

from turngate.contract.clauses import Result
from turngate.contract.verdict import CallEvidence, ClauseResult, Evidence, OutputExcerpt, RequestExcerpt, TurnEvidence
from turngate.sanitize import bounded, command_line, quoted_lines, visible
from turngate_probes.report.structs import ProbeReport, ReleaseReport
from turngate_probes.report.view import JudgedCase, duration, known, name_of, probe_cases

WORD = 200
COMMAND = 1500
EXCERPT = 1600
MOST_REQUESTS = 4
INDENT = "  "

Line = tuple[int, Text]


def evidence_text(evidence: Iterable[Evidence]) -> str:
    """Write evidence as plain lines, as the text report does."""
    lines = [(depth, line.plain) for item in evidence for depth, line in evidence_lines(item)]
    least = min((depth for depth, _ in lines), default=0)
    return "\n".join(INDENT * (depth - least) + line for depth, line in lines)


def evidence_lines(evidence: Evidence) -> Iterator[Line]:
    """Describe a turn (how it ended, its command, streams and requests) or a call."""
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


def _call(call: CallEvidence) -> Iterator[Line]:
    yield 2, Text(visible(f"call {call.call}: {call.method} {call.path}, response {call.status}"))
    for label, text in (("request", call.sent), ("response", call.answer)):
        if text is not None:
            yield 3, Text(visible(f"{label}: {bounded(text, EXCERPT)}"))


def _stream(name: str, stream: OutputExcerpt) -> Iterator[Line]:
    yield 3, Text(f"{name}: {stream.bytes} bytes" if stream.bytes else f"{name}: empty")
    if stream.excerpt.strip():
        yield from ((4, Text(line)) for line in quoted_lines(bounded(stream.excerpt, EXCERPT)))


def _requests(evidence: TurnEvidence) -> Iterator[Line]:
    requests = evidence.requests
    if requests is None:
        return
    if not requests:
        yield 3, Text("the stub model backend received no request")
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
        f"response: {request.reply}",
    ]
    return visible("; ".join(parts))


class Detail(StrEnum):
    """How much text is printed."""

    QUIET = "quiet"
    NORMAL = "normal"
    VERBOSE = "verbose"


class Output:
    """The output options of a command. With JSON, standard output has only JSON, and text goes to standard error.

    Progress has a separate console, which `--quiet` silences.
    """

    def __init__(
        self, *, as_json: bool = False, reports: tuple[Path, ...] = (), detail: Detail = Detail.NORMAL
    ) -> None:
        self.as_json, self.reports, self.detail = as_json, reports, detail
        stream = sys.stderr if as_json else sys.stdout
        if isinstance(stream, io.TextIOWrapper):
            # this terminal's encoding may lack characters that an engine wrote
            stream.reconfigure(errors="backslashreplace")
        self.console: Console = _Console(file=stream, highlight=False, markup=False, emoji=False)
        self.progress = Console(quiet=True) if detail is Detail.QUIET else self.console


class _Console(Console):
    def on_broken_pipe(self) -> Never:
        """Leave the exit code to the command; rich would exit with 1."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


MOST_EVIDENCE = 20
MOST_NAMED = 4
WORDS = {"failed": "fail", "warned": "degraded", "open": "unanswered"}
SEVEREST_FIRST = (*WORDS, "noted", "skipped")

STYLES = dict.fromkeys(("broken", "fail", "crashed", "breaking"), "bold red")
STYLES |= dict.fromkeys(("degraded", "known caveat", "unsupported"), "yellow") | {"stale": "cyan"}
STYLES |= dict.fromkeys(("unanswered", "not run", "not tested", "interrupted"), "magenta")


def style_of(word: str) -> str:
    """Return the style of a verdict, result, outcome or impact; none for other words."""
    return STYLES.get(word, "")


def labelled(word: str, rest: str) -> Text:
    """Return a line that begins with a word in its style."""
    return Text.assemble((word, style_of(word)), f" {rest}")


def named(releases: Sequence[str]) -> str:
    """Return the names of releases, shortened to a few if there are many."""
    more = len(releases) - MOST_NAMED
    return ", ".join(releases[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def problem_lines(report: ProbeReport, detail: Detail) -> Iterator[Line]:
    """Return a block for the releases that have problems; releases with the same problems share one."""
    blocks: dict[tuple[str, ...], tuple[list[Line], list[ReleaseReport]]] = {}
    for release in report.releases:
        if lines := list(_block(release, _listed(report, release, detail), detail)):
            key = (release.engine, *(line.plain for _, line in lines))
            blocks.setdefault(key, (lines, []))[1].append(release)
    for lines, releases in blocks.values():
        yield 0, Text()
        yield 0, _title(releases)
        yield from lines


def failure_evidence(report: ProbeReport, detail: Detail) -> Iterator[Line]:
    """Return the evidence of each failure, then a blank line; verbose text includes that of known caveats."""
    shown = [
        (release, case)
        for release in report.releases
        for case in _listed(report, release, detail)
        if case.clause and case.clause.evidence and case.clause.result in (Result.FAIL, Result.DEVIATES)
    ]
    if not shown:
        return
    yield 0, Text("Evidence", "bold")
    for release, case in shown[:MOST_EVIDENCE]:
        yield 1, labelled(_word(case), f"{name_of(release)} {visible(case.name)}")
        for evidence in case.clause.evidence if case.clause else ():
            yield from evidence_lines(evidence)
    if len(shown) > MOST_EVIDENCE:
        yield 1, Text(f"and {len(shown) - MOST_EVIDENCE} more in the journal and the reports")
    yield 0, Text()


def _listed(report: ProbeReport, release: ReleaseReport, detail: Detail) -> list[JudgedCase]:
    cases = [case for case in probe_cases(release, report.fail_on) if _is_listed(case, detail)]
    return sorted(cases, key=lambda case: SEVEREST_FIRST.index(case.judgement))


def _is_listed(case: JudgedCase, detail: Detail) -> bool:
    if case.judgement == "noted" and case.kind == "caveat":
        return detail is Detail.VERBOSE
    return case.judgement != "passed" and (detail is not Detail.QUIET or not case.text.startswith(Result.UNSUPPORTED))


def _title(releases: Sequence[ReleaseReport]) -> Text:
    first = releases[0]
    versions = named([visible(release.version or "?") for release in releases])
    where = "; ".join(filter(None, (first.executable or f"from {first.source}", first.note)))
    about = f" ({visible(where)})" if len(releases) == 1 else ""
    return Text.assemble((f"{visible(first.engine)} {versions}", "bold"), about)


def _block(release: ReleaseReport, cases: Iterable[JudgedCase], detail: Detail) -> Iterator[Line]:
    clauses = {clause.id: clause for clause in release.clauses}
    if failed := release.failed:
        yield 1, labelled("not tested", visible(failed.what) + (f" ({visible(failed.hint)})" if failed.hint else ""))
        return
    listed = [(case, clauses.get(case.name)) for case in cases]
    shared = Counter((_word(case), clause.detail) for case, clause in listed if clause and _not_run(clause))
    for case, clause in listed:
        if clause is None:
            yield 1, labelled(_word(case), visible(case.text))
        elif not _not_run(clause) or shared[_word(case), clause.detail] == 1:
            yield from _clause(case, clause, detail)
    for (word, why), times in shared.items():
        if times > 1:
            ids = [case.name for case, clause in listed if clause and (_word(case), clause.detail) == (word, why)]
            which = f": {', '.join(ids)}" if times < len(release.clauses) else ""
            yield 1, labelled(word, visible(f"{times} of {len(release.clauses)} clauses, {why}{which}"))
    if listed and release.unverified and detail is not Detail.QUIET:
        yield 1, Text("unverified in the contract: " + ", ".join(map(visible, release.unverified)))
    if detail is Detail.VERBOSE:
        yield 1, Text(f"{release.turns} turns; the engine used {duration(release.engine_seconds)} of CPU time")


def _clause(case: JudgedCase, clause: ClauseResult, detail: Detail) -> Iterator[Line]:
    entry = known(clause.id)
    yield 1, labelled(_word(case), visible(clause.id) + (f": {entry.sentence}" if entry else ""))
    is_caveat = (case.judgement, case.kind) == ("failed", "caveat")
    yield 2, Text(visible(f"known caveat: {clause.detail}" if is_caveat else clause.detail))
    if entry and detail is not Detail.QUIET and clause.result in (Result.FAIL, Result.DEVIATES):
        yield 2, Text(f"why: {entry.why}")


def _word(case: JudgedCase) -> str:
    """Return the first word of a line."""
    if case.judgement in WORDS:
        return "crashed" if case.kind == "crashed" else WORDS[case.judgement]
    return "known caveat" if case.kind == "caveat" else case.text.partition(":")[0]


def _not_run(clause: ClauseResult) -> bool:
    return clause.result is Result.NOT_RUN
