"""The text of a report: releases or the outcome, problems, what to do, evidence, a summary.

Problems are failures and open clauses, then stale, missing and not run ones. Each has its evidence: what turns and
calls showed, as long as the command's output may be.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import UNSET
from rich.text import Text

from turngate.contract.clauses import Reason, Result
from turngate.contract.verdict import ClauseResult, Verdict
from turngate.history_text import named
from turngate.sanitize import bounded, visible
from turngate_probes.report.evidence import evidence_lines
from turngate_probes.report.lines import INDENT, Detail, Line, labelled, style_of
from turngate_probes.report.release_view import ReleaseView
from turngate_probes.report.release_view import view as view_of
from turngate_probes.report.reports import Difference, GateOutcome, GateReport, Impact, ProbeReport, ReleaseReport
from turngate_probes.report.view import ACTIONS, EDITS, JudgedCase, Suite, View
from turngate_probes.report.wording import (
    advice,
    basis,
    clause_set_of,
    counted,
    duration,
    from_where,
    known,
    remarks,
    settings_lines,
    version_of,
)

MOST_EVIDENCE = 20
_INTERRUPTED = "interrupted"
_NO_MODEL = "the contract names no model that it takes by itself"
MOST_TOOL_LINES = 16
MOST_OF_A_KIND = 12
_UNUSED = "other, but not used by the contract"
LONGEST = 240
WORDS = {"failed": "fail", "warned": "degraded", "open": "unanswered"}
SEVEREST_FIRST = (*WORDS, "noted", "skipped")


def report_lines(view: View, journal: Path | None = None, detail: Detail = Detail.NORMAL) -> Iterator[Line]:
    """Return the lines of a whole report with their depth; `journal` is the path of its events."""
    before = True
    for line in _lines(view, journal, detail):
        if before or line[1]:  # a missing part leaves no second blank line
            yield line
        before = bool(line[1])


def problem_lines(view: ReleaseView, detail: Detail) -> Iterator[Line]:
    """Return a block for the releases that have problems; releases with the same problems share one."""
    blocks: dict[tuple[str, ...], tuple[list[Line], list[ReleaseReport]]] = {}
    for release, suite in zip(view.probe.releases, view.suites, strict=True):
        if lines := list(_block(release, _listed(suite, detail), detail)):
            key = (release.engine, *(line.plain for _, line in lines))
            blocks.setdefault(key, (lines, []))[1].append(release)
    for lines, releases in blocks.values():
        yield 0, _title(releases)
        yield from lines
        yield 0, Text()


def failure_evidence(view: View, detail: Detail) -> Iterator[Line]:
    """Return the evidence of each failure, then a blank line; verbose text includes that of known caveats."""
    listed = [
        (case, case.clause.evidence)
        for suite in view.suites
        for case in _listed(suite, detail)
        if case.clause and case.clause.evidence and case.clause.result in (Result.FAIL, Result.DEVIATES)
    ]
    if not listed:
        return
    yield 0, Text("Evidence", "bold")
    for case, evidence in listed[:MOST_EVIDENCE]:
        yield 1, labelled(_word(case), f"{case.subject} {visible(case.name)}")
        for item in evidence:
            yield from evidence_lines(item)
    if len(listed) > MOST_EVIDENCE:
        yield 1, Text(f"and {len(listed) - MOST_EVIDENCE} more in the journal and the reports")
    yield 0, Text()


def outcome_lines(view: ReleaseView) -> Iterator[Line]:
    """Return the outcome of a gate, and the reasons."""
    yield 0, Text(view.headline, style_of(view.outcome))
    yield from ((1, _shortened(why)) for why in (view.gate.reasons if view.gate else ()))


def _lines(view: View, journal: Path | None, detail: Detail) -> Iterator[Line]:
    if not isinstance(view, ReleaseView):
        return _of_orchestrator(view)
    return _of_gate(view.gate, view, detail) if view.gate else _of_probe(view.probe, view, journal, detail)


def _of_orchestrator(view: View) -> Iterator[Line]:
    """Return the lines after those of the scenarios: the verdict, and the broken rules with their scenarios."""
    yield 0, Text()
    counts = ", ".join(f"{each.count} {each.word}" for each in view.counts if each.count)
    yield 0, Text.assemble((view.outcome, style_of(view.outcome)), f": {counts or 'nothing was tested'}")
    broken = [remark for remark in view.remarks if remark.rule]
    for rule, promise in {remark.rule: remark.hint for remark in broken}.items():
        yield 1, Text(f"{rule}: {' '.join(promise)}")
        names = (name for each in broken if each.rule == rule for name in (each.about, *each.also))
        yield 2, Text(f"broken in {', '.join(dict.fromkeys(names))}")
    for remark in view.remarks:
        if remark.level == "note":
            yield 1, Text(visible(remark.text))
    yield 0, Text(duration(view.seconds))
    yield _exit_code(view)


def _exit_code(view: View) -> Line:
    style = {0: "bold green", 1: "bold red"}.get(view.exit_code, "bold yellow")
    return 0, Text(f"exit code {view.exit_code}: {visible(view.meaning)}", style)


def _of_probe(report: ProbeReport, view: ReleaseView, journal: Path | None, detail: Detail) -> Iterator[Line]:
    yield from problem_lines(view, detail)
    if detail is Detail.QUIET:
        yield from _headlines(report.releases)
        return
    yield from _actions(view, len(report.releases))
    yield from failure_evidence(view, detail)
    yield from _qualified(report.releases)
    yield from _models(report.releases)
    yield from _tool_access(view)
    yield from _settings(report.releases)
    if peak := report.peak_usage:
        most = f"{peak.cache_bytes / 1e9:.2f} GB of disk for releases, {peak.memory_bytes / 1e9:.2f} GB of memory"
        yield 0, Text(f"peak usage: {most} (sum of resident sets)")
    if report.interrupted:
        yield 0, Text("interrupted, so the results are incomplete", style_of("interrupted"))
    if journal:
        yield 0, Text(f"journal: {visible(str(journal))}")
    if detail is Detail.VERBOSE:
        yield from _cpu(report)
    yield 0, Text(f"{duration(report.seconds)}; the engines used {duration(report.engine_seconds)} of CPU time")
    yield from _headlines(report.releases)
    if view.remaining:
        yield 0, Text(visible(view.remaining))
    yield _exit_code(view)


def _of_gate(report: GateReport, view: ReleaseView, detail: Detail) -> Iterator[Line]:
    """Return the lines of a gate; what is gone but not used comes before what is new."""
    yield from _actions(view, 1)
    if detail is Detail.QUIET:
        yield from _qualified(report.probe.releases)
        yield from outcome_lines(view)
        return
    for impact in (Impact.BREAKING, Impact.DEGRADED, Impact.NONE, Impact.ADDITIVE):
        rows = report.differences if impact is Impact.NONE else view.differences
        yield from _differences(impact, _having(impact, rows), _having(impact, view.fallen))
    for clause in report.newer.clauses:
        if clause.result is Result.FAIL:
            yield 0, Text()
            yield 0, labelled("fail", visible(f"{clause.id}: {clause.detail}"))
            if catalogued := known(clause.id):
                yield 1, Text(f"why: {catalogued.why}")
                yield from ((1, Text(line)) for line in advice(catalogued))
            for evidence in clause.evidence:
                yield from evidence_lines(evidence)
    yield 0, Text()
    yield from _contract_edits(view)
    yield from _qualified(report.probe.releases)
    yield from _models(report.probe.releases)
    yield from _tool_access(view)
    for entry in report.baseline.entries:
        yield 0, Text(visible(f"baseline: {entry.clause} {entry.state.replace('_', ' ')} ({entry.reason})"))
    if detail is Detail.VERBOSE:
        yield from problem_lines(view_of(report.probe), detail)
        yield from _cpu(report.probe)
    counts = ", ".join(f"{count} {impact}" for impact, count in report.counts.items() if count)
    nothing = "none" if report.outcome in (GateOutcome.PASS, GateOutcome.FAIL) else "not compared"
    yield 0, Text(f"differences: {counts or nothing}")
    yield 0, Text(duration(view.seconds))
    yield from outcome_lines(view)
    yield _exit_code(view)


def _headlines(releases: Iterable[ReleaseReport]) -> Iterator[Line]:
    columns = [column for column in zip(*map(_cells, releases), strict=True) if any(column)]
    widths = [max(map(len, column)) for column in columns]
    for cells in zip(*columns, strict=True):
        padded = (Text(cell.ljust(width), style_of(cell)) for cell, width in zip(cells, widths, strict=True))
        line = Text(INDENT).join(padded)
        line.rstrip()
        yield 0, line


def _cells(release: ReleaseReport) -> tuple[str, ...]:
    # recordings may give a verdict where no engine could be tested
    failed = release.failed if release.verdict in (None, Verdict.UNANSWERED) else None
    return (
        visible(release.engine),
        version_of(release),
        release.verdict or "no verdict",
        clause_set_of(release) if release.verdict and not failed else "",
        visible(failed.what) if failed else counted(release) + basis(release),
        release.profile.kind if release.profile and release.verdict is not Verdict.BROKEN else "",
        duration(release.seconds),
    )


def _cpu(report: ProbeReport) -> Iterator[Line]:
    """Return how much of the cores the engines used."""
    per_core = report.engine_seconds / report.cores
    ratio = f"; the wall time is {report.seconds / per_core:.2f} times as long" if per_core else ""
    cores = f"{report.cores} core{'s' * (report.cores != 1)}"
    yield 0, Text(f"{cores}: {duration(per_core)} of CPU time per core{ratio}")


def _actions(view: View, releases: int) -> Iterator[Line]:
    """Return what an orchestrator must do, with a blank line after it."""
    remaining = view.remaining if view.kind == "gate" else ""  # that of a probe stands beside its verdicts
    if not view.actions and not remaining:
        return
    yield 0, Text(ACTIONS, "bold")
    if remaining:
        yield 1, Text(remaining)
    for action in view.actions:
        where = f" ({named(action.releases)})" if releases > 1 else ""
        mark = "new: " if action.new else ""
        yield 1, Text(visible(f"{mark}{action.about}: {action.text}{where}"))
    yield 0, Text()


def _contract_edits(view: ReleaseView) -> Iterator[Line]:
    """Return what to change in the contract, ready to paste, with a blank line after it."""
    if not view.contract_edits:
        return
    yield 0, Text(EDITS, "bold")
    for edit in view.contract_edits:
        yield 1, Text(visible(f"{edit.place}: {edit.what}"))
        yield from ((2, Text(visible(line))) for line in edit.text.splitlines())
    yield 0, Text()


def _shortened(text: str) -> Text:
    return Text(visible(bounded(text, LONGEST)))


def _having(impact: Impact, differences: Iterable[Difference]) -> list[Difference]:
    return [row for row in differences if row.impact is impact]


def _differences(impact: Impact, listed: list[Difference], fallen: list[Difference]) -> Iterator[Line]:
    if listed or fallen:
        yield 0, Text()
        yield 0, Text(_UNUSED if impact is Impact.NONE else impact, style_of(impact))
    for row in listed[:MOST_OF_A_KIND]:
        change = f"{row.before or 'nothing'} → {row.after or 'nothing'}"
        if row.before is None or row.after is None:
            change = "new" if row.before is None else "gone"
        elif "|" in row.before and "|" in row.after:
            change = ""  # the detail says which words of the list
        yield 1, _shortened(": ".join(filter(None, (f"{row.kind} {row.subject}", change, row.told))))
    if len(listed) > MOST_OF_A_KIND:
        kind = "" if impact is Impact.NONE else f" that are {impact}"
        yield 1, Text(f"and {len(listed) - MOST_OF_A_KIND} more{kind}")
    if fallen:
        yield 1, Text(f"no longer testable: {', '.join(row.subject for row in fallen)}")


def _qualified(releases: Iterable[ReleaseReport]) -> Iterator[Line]:
    return ((0, Text(remark)) for release in releases for remark in remarks(release))


def _models(releases: Iterable[ReleaseReport]) -> Iterator[Line]:
    """Return the models that releases were tested with."""
    for release in releases:
        models = release.models
        if models is UNSET or not release.turns:
            continue
        unnamed = "the model that it takes by itself, which no request named"
        own = f"{models.own}, which it takes by itself" if models.own else unnamed
        parts = [f"{own} (the choice depends on {models.depends_on})"] if models.depends_on else []
        none = f"it takes none by itself: {models.none_because}" if models.none_because else _NO_MODEL
        why = ", which turns ask for by name" if models.depends_on else f": {none}"
        parts += [f"{models.asked}{why}"] if models.asked else []
        yield 0, Text(visible(f"{release.release} was tested with {', and with '.join(parts)}"))


def _tool_access(view: ReleaseView) -> Iterator[Line]:
    """Return the tools offered in each mode and the outcome of a call, with a blank line after them."""
    listed = view.tool_access
    if not listed:
        return
    yield 0, Text("tools available per approval mode, and the outcome of a tool call:")
    for release, row in listed[:MOST_TOOL_LINES]:
        offered = f"tools offered: {row.offered}{f' (only in this mode: {row.alone})' if row.alone else ''}"
        ended = f", exit code {row.code}" if row.code else ""
        yield 1, Text(visible(f"{release.release} {row.mode}: {offered}; {row.call}{ended}"))
    if len(listed) > MOST_TOOL_LINES:
        yield 1, Text(f"and {len(listed) - MOST_TOOL_LINES} more in the reports")
    yield 0, Text()


def _settings(releases: Iterable[ReleaseReport]) -> Iterator[Line]:
    """Return which of the user's settings releases were tested with, and what they change."""
    for release in releases:
        if lines := settings_lines(release):
            yield 0, Text(visible(f"{release.release} with your settings: {lines[0]}"))
            yield from ((1, Text(visible(line))) for line in lines[1:])


def _listed(suite: Suite, detail: Detail) -> list[JudgedCase]:
    cases = [case for case in suite.cases if _is_listed(case, detail)]
    return sorted(cases, key=lambda case: SEVEREST_FIRST.index(case.judgement))


def _is_listed(case: JudgedCase, detail: Detail) -> bool:
    if case.judgement == "noted" and case.kind == "caveat":
        return detail is Detail.VERBOSE
    return case.judgement != "passed" and (detail is not Detail.QUIET or not case.text.startswith(Result.UNSUPPORTED))


def _title(releases: Sequence[ReleaseReport]) -> Text:
    first = releases[0]
    versions = named([visible(release.version or "?") for release in releases])
    where = "; ".join(filter(None, (first.executable or from_where(first.source), first.note)))
    about = f" ({visible(where)})" if len(releases) == 1 else ""
    return Text.assemble((f"{visible(first.engine)} {versions}", "bold"), about)


def _block(release: ReleaseReport, cases: Sequence[JudgedCase], detail: Detail) -> Iterator[Line]:
    if failed := release.failed:
        yield 1, labelled("not tested", visible(failed.what) + (f" ({visible(failed.hint)})" if failed.hint else ""))
        return
    interrupted = _interrupted(release.clauses)
    shared = _shared(cases, interrupted)
    for case in cases:
        if case.clause is None:
            yield 1, labelled(_word(case), visible(case.text))
        elif (_word(case), _why(case.clause, interrupted)) not in shared:
            yield from _clause(case, case.clause, detail)
    for (word, why), ids in shared.items():
        which = f": {', '.join(ids)}" if len(ids) < len(release.clauses) else ""
        yield 1, labelled(word, visible(f"{len(ids)} of {len(release.clauses)} clauses, {why}{which}"))
    if cases and release.unverified and detail is not Detail.QUIET:
        yield 1, Text("unverified in the contract: " + ", ".join(map(visible, release.unverified)))
    if detail is Detail.VERBOSE:
        yield 1, Text(f"{release.turns} turns; the engine used {duration(release.engine_seconds)} of CPU time")


def _interrupted(clauses: Sequence[ClauseResult]) -> set[str]:
    """Return the clauses that an interruption kept from being run, with those that need them."""
    found = {clause.id for clause in clauses if clause.reason is Reason.INTERRUPTED}
    others = [clause for clause in clauses if clause.result is Result.NOT_RUN]
    while more := {clause.id for clause in others if found & {*clause.needs}} - found:
        found |= more
    return found


def _why(clause: ClauseResult, interrupted: set[str]) -> str:
    return _INTERRUPTED if clause.id in interrupted else clause.detail


def _shared(cases: Iterable[JudgedCase], interrupted: set[str]) -> dict[tuple[str, str], list[str]]:
    """Return the clauses that were not run for the same reason as others, by their word and the reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for case in cases:
        if case.clause and case.clause.result is Result.NOT_RUN:
            reasons.setdefault((_word(case), _why(case.clause, interrupted)), []).append(case.name)
    return {reason: ids for reason, ids in reasons.items() if len(ids) > 1}


def _clause(case: JudgedCase, clause: ClauseResult, detail: Detail) -> Iterator[Line]:
    entry = known(clause.id)
    yield 1, labelled(_word(case), visible(clause.id) + (f": {entry.sentence}" if entry else ""))
    is_caveat = (case.judgement, case.kind) == ("failed", "caveat")
    yield 2, Text(visible(f"known caveat: {clause.detail}" if is_caveat else clause.detail))
    if entry and detail is not Detail.QUIET and clause.result in (Result.FAIL, Result.DEVIATES):
        yield 2, Text(f"why: {entry.why}")
    if entry and case.judgement in WORDS and detail is not Detail.QUIET and clause.result is Result.FAIL:
        yield from ((2, Text(line)) for line in advice(entry))


def _word(case: JudgedCase) -> str:
    """Return the first word of a line."""
    if case.judgement in WORDS:
        return "crashed" if case.kind == "crashed" else WORDS[case.judgement]
    return "known caveat" if case.kind == "caveat" else case.text.partition(":")[0]
