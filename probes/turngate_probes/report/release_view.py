"""The view of a probe or a gate: the words for a release, its verdict and its clauses, and how a clause is judged.

What makes the exit code 1 fails in every format. Remarks say what is unanswered, what failed and what is excused, most
severe first.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from turngate.contract.clauses import Clause, Result, Severity
from turngate.contract.load import catalogue
from turngate.contract.verdict import ClauseResult, FailOn, Verdict
from turngate.sanitize import visible
from turngate_probes.clauses import CHECKS
from turngate_probes.journal.events import Origin
from turngate_probes.journal.tool_access import ModeToolAccess, ToolAccessRow, rows
from turngate_probes.report.build import bugs, standing
from turngate_probes.report.contract_edits import ContractEdit, contract_edits
from turngate_probes.report.reports import (
    Difference,
    GateDecision,
    GatedRelease,
    GateOutcome,
    GateReason,
    GateReport,
    Impact,
    ProbeReport,
    ReleaseReport,
    known_caveats,
)
from turngate_probes.report.view import (
    EXPLAIN,
    Cell,
    Column,
    Count,
    Fact,
    JudgedCase,
    Mark,
    Remark,
    RemarkLevel,
    Row,
    RowFamily,
    Sign,
    Suite,
    View,
    duration,
    named,
)

NOT_TESTED: Final = "not tested"
LABELS: Final[dict[str, str]] = {Result.DEVIATES: "known caveat"}


class ReleaseView(View, frozen=True, kw_only=True):
    """The view of a probe or a gate, which also shows how releases differ and which tools they offer.

    gate: The report of the gate; None for a probe.
    decision: That of the gate; empty for a probe.
    differences: Those with consequences, except the `fallen` ones.
    fallen: The clauses that are no longer testable because a prerequisite fails.
    contract_edits: What the newer release of a gate changes in a contract that can be edited.
    """

    probe: ProbeReport
    gate: GateReport | None
    decision: GateDecision
    differences: tuple[Difference, ...]
    fallen: tuple[Difference, ...]
    contract_edits: tuple[ContractEdit, ...]
    tool_access: tuple[tuple[ReleaseReport, ToolAccessRow], ...]


def known(clause_id: str) -> Clause | None:
    """Return the catalogue's entry; None for a clause of another version of turngate."""
    return catalogue().get(clause_id)


def from_where(source: Origin) -> str:
    """Return where a release comes from, such as `from npm`."""
    return "no executable" if source == "none" else f"from {source}"


def advice(clause: Clause) -> tuple[str, ...]:
    """Return what to do if a clause fails, in an orchestrator and in a contract, and the command that explains it."""
    contract = (f"In a contract: {clause.contract}",) if clause.contract else ()
    return f"In an orchestrator: {clause.orchestrator}", *contract, f"More: {EXPLAIN} {clause.id}"


def name_of(release: ReleaseReport) -> str:
    """Return the release's key, with control characters escaped."""
    return visible(release.release)


def version_of(release: ReleaseReport) -> str:
    """Return the version, with control characters escaped, and what the key adds if builds share the version."""
    name, key = f"{release.engine}@{release.version or 'unknown'}", release.release
    return visible((release.version or "?") + (key.removeprefix(name) if key.startswith(name) else ""))


def basis(release: ReleaseReport) -> str:
    """Return the addition to a verdict that is based on recordings; empty if the release was run."""
    return ", from recordings" if release.source == "recordings" else ""


def clause_set_of(release: ReleaseReport | GatedRelease) -> str:
    """Return the name of the set of clauses by which a release was judged."""
    return visible(f"clause set {release.clause_set}")


def verdict_of(release: ReleaseReport) -> str:
    """Return the verdict of a release, its set of clauses, and the number of its caveats; none for selected clauses."""
    caveats = sum(clause.result is Result.DEVIATES for clause in release.clauses)
    with_caveats = f", {caveats} known caveat{'s' * (caveats > 1)}" if caveats else ""
    verdict = f"{release.verdict} ({clause_set_of(release)})" if release.verdict else "no verdict"
    return f"{verdict}{with_caveats}{basis(release)}"


def profile_of(release: ReleaseReport) -> str:
    """Return the profile kind of a release; `not tested` if resuming was not tested."""
    return release.profile.kind if release.profile else NOT_TESTED


def counted(release: ReleaseReport) -> str:
    """Return the number of clauses by result; `unsupported` is left out if it is 0."""
    counts = Counter(clause.result for clause in release.clauses)
    caveats, total = counts[Result.DEVIATES], len(release.clauses)
    words = [f"{counts[Result.PASS]} passed", f"{caveats} known caveat{'s' * (caveats != 1)}"]
    words += [f"{counts[Result.FAIL]} failed", f"{counts[Result.NOT_RUN]} not run"]
    words += [f"{counts[Result.UNSUPPORTED]} unsupported"] if counts[Result.UNSUPPORTED] else []
    return f"{total} clause{'s' * (total != 1)}: {', '.join(words)}"


def state(clause: ClauseResult) -> str:
    """Return the result of a clause, or `stale`."""
    return "stale" if clause.stale and clause.result is Result.PASS else clause.result


def label(state_of_clause: str) -> str:
    """Return the words for a result: `deviates` is a known caveat."""
    return LABELS.get(state_of_clause, state_of_clause.replace("_", " "))


PAIR = 2
CHANGES_REQUIRED = "green, changes required"
UPGRADES = {
    GateOutcome.PASS: "green, you can upgrade from",
    GateOutcome.FAIL: "red, do not upgrade from",
    GateOutcome.UNANSWERED: "unanswered, because not everything could be tested for the upgrade from",
    GateOutcome.CRASHED: "unanswered, because turngate itself failed while testing the upgrade from",
    GateOutcome.INTERRUPTED: "interrupted while testing the upgrade from",
}
GATE_MEANING = {
    GateOutcome.PASS: "nothing prevents the upgrade",
    GateOutcome.UNANSWERED: "not everything could be tested",
    GateOutcome.CRASHED: "turngate itself failed, which says nothing about the engine",
    GateOutcome.INTERRUPTED: "interrupted, so the results are incomplete",
}
GATE_FAILS = {
    FailOn.BROKEN: "something breaks",
    FailOn.DEGRADED: "something breaks or gets worse, or a declared deviation no longer occurs",
    FailOn.CAVEAT: "something breaks or gets worse, or there are known caveats",
}
MEANING = {
    0: "no release fails or is unanswered",
    3: "turngate itself failed and can't say why a clause was not run; please report this bug",
    130: "interrupted",
}
NOTHING = "nothing was probed"


def gate_headline(report: GateReport) -> str:
    """Return what a gate says about the newer release."""
    advice = f"{CHANGES_REQUIRED} before you upgrade from" if report.changes_required else UPGRADES[report.outcome]
    old, new = report.old, report.new
    is_same = (old.version, old.source, old.executable) == (new.version, new.source, new.executable)
    same = ", which is the same release" if is_same else ""
    only = ", selected clauses only" if report.clauses else ""
    return visible(f"{new.release}: {advice} {old.release}{same} ({clause_set_of(new)}{only})")


def gate_meaning(report: GateReport) -> str:
    """Return what the exit code of a gate means."""
    return GATE_MEANING.get(report.outcome, GATE_FAILS[report.probe.fail_on])


def probe_headline(report: ProbeReport, verdicts: Mapping[Verdict, int]) -> str:
    """Return the verdict of the only release, or how many releases have the worst one."""
    releases = report.releases
    if not releases:
        return "Nothing was probed"
    if len(releases) == 1:
        (only,) = releases
        return f"{name_of(only)} is {verdict_of(only)}" if only.verdict else f"{name_of(only)}: {counted(only)}"
    if not any(verdicts.values()):
        failing = sum(any(clause.result is Result.FAIL for clause in release.clauses) for release in releases)
        return f"{failing} of {len(releases)} releases fail a selected clause"
    worst, count = next(pair for pair in verdicts.items() if pair[1])
    if count == len(releases):
        return f"{'Both' if count == PAIR else f'All {count}'} releases are {worst}"
    return f"{count} of {len(releases)} releases {'is' if count == 1 else 'are'} {worst}"


def meaning(report: ProbeReport) -> str:
    """Return what the exit code of a probe means, with the releases that are the reason for it."""
    if not report.releases and not report.interrupted:
        return NOTHING
    if known := MEANING.get(report.exit_code):
        return known
    told = ((_shortcoming(release, report), name_of(release)) for release in report.releases)
    reasons: dict[str, list[str]] = {}
    for shortcoming, name in told:
        if shortcoming:
            reasons.setdefault(shortcoming, []).append(name)
    return "; ".join(f"{named(names)} {_verb(shortcoming, len(names))}" for shortcoming, names in reasons.items())


def _shortcoming(release: ReleaseReport, report: ProbeReport) -> str:
    """Return why a release makes the exit code what it is: an adjective, or what it has; empty if it doesn't."""
    cases = list(probe_cases(release, report.fail_on))
    if report.exit_code != 1:
        return "unanswered" if any(case.judgement == "open" for case in cases) else ""
    failed = {case.kind for case in cases if case.judgement == "failed"}
    if failed and release.verdict is None:
        return "selected"
    words = {"breaking": "broken", "degraded": "degraded", "informative": "degraded"}
    return next((words.get(kind, kind) for kind in (*words, "stale", "caveat") if kind in failed), "")


def _verb(shortcoming: str, count: int) -> str:
    if shortcoming == "selected":
        return f"{'fails' if count == 1 else 'fail'} a selected clause"
    has = {"stale": "a declared deviation that no longer occurs", "caveat": "known caveats"}
    if shortcoming in has:
        return f"{'has' if count == 1 else 'have'} {has[shortcoming]}"
    return f"{'is' if count == 1 else 'are'} {shortcoming}"


ANSWERED = "turngate.answered"
OPEN = ("unanswered", "interrupted", "crashed")


def judged_case(clause: ClauseResult, fail_on: FailOn = FailOn.BROKEN) -> JudgedCase:
    """Judge the result of a clause as the exit code does."""
    detail = clause.detail.partition("; stale: ")[2] if state(clause) == "stale" else ""
    text = f"{label(state(clause))}: {detail or clause.detail}" + (f"; to do: {clause.action}" if clause.action else "")
    if clause.result is Result.FAIL:
        if clause.severity is Severity.BREAKING or fail_on is not FailOn.BROKEN:
            return JudgedCase(clause.id, "failed", clause.detail, clause.severity, clause)
        return JudgedCase(clause.id, "warned", clause.detail, clause.severity, clause)
    if clause.result in (Result.UNSUPPORTED, Result.NOT_RUN):
        return JudgedCase(clause.id, "skipped", text)
    if clause.stale and fail_on is not FailOn.BROKEN:
        return JudgedCase(clause.id, "failed", text, "stale", clause)
    if clause.result is Result.DEVIATES:
        return JudgedCase(clause.id, "failed" if fail_on is FailOn.CAVEAT else "noted", text, "caveat", clause)
    return JudgedCase(clause.id, "noted", text, "stale") if clause.stale else JudgedCase(clause.id, "passed", text)


def probe_cases(release: ReleaseReport, fail_on: FailOn) -> Iterator[JudgedCase]:
    """Judge each clause of a release. What leaves it unanswered is open, if necessary in a separate case."""
    unexplained, unanswered = set(bugs(release)), standing(release) is Verdict.UNANSWERED
    is_open = bool(unexplained)
    for clause in release.clauses:
        counts = clause.severity is Severity.BREAKING or release.verdict is None
        if clause.id in unexplained:
            yield JudgedCase(clause.id, "open", clause.detail, "crashed", clause)
        elif unanswered and clause.result is Result.NOT_RUN and counts and not release.failed:
            is_open = True
            yield JudgedCase(clause.id, "open", f"not run: {clause.detail}", "unanswered", clause)
        else:
            yield judged_case(clause, fail_on)
    if failed := release.failed:
        yield JudgedCase(ANSWERED, "open", failed.what, "unanswered", hint=(failed.hint,))
    elif unanswered and not is_open:
        yield JudgedCase(ANSWERED, "open", "the release was not tested completely", "unanswered")


def gate_cases(release: ReleaseReport, decision: GateDecision, fail_on: FailOn) -> Iterator[JudgedCase]:
    """Judge each clause of the newer release, and each other reason; what is excused is skipped."""
    reasons = {reason.about: reason for reason in decision.reasons}
    excused = {excuse.reason.about: excuse.text for excuse in decision.excused}
    for clause in release.clauses:
        # by either name: as a clause that failed or as one that was not tested
        reason = reasons.pop(clause.id, None) or reasons.pop(f"{release.release}: {clause.id}", None)
        excuse = excused.pop(clause.id, None)
        if reason:
            yield _against(reason, clause.id, clause)
        elif excuse:
            yield JudgedCase(clause.id, "skipped", excuse)
        else:
            yield judged_case(clause, fail_on)
    yield from (_against(reason, about) for about, reason in reasons.items())
    yield from (JudgedCase(about, "skipped", excuse) for about, excuse in excused.items())


def _against(reason: GateReason, name: str, clause: ClauseResult | None = None) -> JudgedCase:
    if reason.kind in OPEN:
        return JudgedCase(name, "open", reason.text, reason.kind, clause)
    kind = clause.severity if clause and reason.kind == "clause" else reason.kind
    return JudgedCase(name, "failed", reason.text, kind, clause)


# most severe first
REMARK_LEVELS: Final[dict[Severity, RemarkLevel]] = {
    Severity.BREAKING: "error",
    Severity.DEGRADED: "warning",
    Severity.INFORMATIVE: "warning",
}


# of judged cases; most severe first
LEVELS_OF: Final[dict[str, RemarkLevel]] = {"failed": "error", "warned": "warning", "noted": "note"}
SEVEREST_FIRST = tuple(LEVELS_OF)
KINDS = (*Severity, "stale", "caveat")


def _remark(
    release: ReleaseReport,
    level: RemarkLevel,
    about: str,
    text: str,
    rule: str | None = None,
    *,
    at: str = "",
    result: ClauseResult | None = None,
) -> Remark:
    return Remark(name_of(release), level, about, text, rule, at, result, release)


def gate_remarks(release: ReleaseReport, decision: GateDecision, fail_on: FailOn) -> Iterator[Remark]:
    """Remark on each reason of a decision, then on other failures, then on what is excused."""
    for reason in decision.reasons:
        rule = reason.about if reason.about == reason.clause else f"gate.{reason.kind}"
        yield _remark(release, "error", reason.about, reason.text, rule, at=reason.at)
    for case in gate_cases(release, decision, fail_on):
        if case.judgement == "warned":
            yield _on(release, case)
    for excuse in decision.excused:
        reason = excuse.reason
        yield _remark(release, "note", reason.about, excuse.text, at=reason.at)


def probe_remarks(report: ProbeReport) -> Iterator[Remark]:
    """Remark on what is unanswered, then on what makes the exit code 1, then on everything else that is new."""
    cases = [(release, list(probe_cases(release, report.fail_on))) for release in report.releases]
    for release, listed in cases:
        if left_open := [case for case in listed if case.judgement == "open"]:
            yield _remark(release, "error", "", _unanswered(release, left_open))
    # the sort keeps the order of the releases
    problems = sorted(
        ((release, case) for release, listed in cases for case in listed if case.judgement in LEVELS_OF),
        key=lambda problem: (SEVEREST_FIRST.index(problem[1].judgement), KINDS.index(problem[1].kind)),
    )
    yield from (_on(release, case) for release, case in problems if case.kind != "caveat" or case.judgement == "failed")


def _on(release: ReleaseReport, case: JudgedCase) -> Remark:
    # a note is about the contract, not about what the engine did
    rule = None if case.judgement == "noted" else case.name
    return _remark(release, LEVELS_OF[case.judgement], case.name, case.text, rule, result=case.clause)


def _unanswered(release: ReleaseReport, left_open: Sequence[JudgedCase]) -> str:
    if release.failed:
        return f"could not be tested: {release.failed.what}"
    first, more = left_open[0], len(left_open) - 1
    return f"unanswered: {first.name}: {first.text}{f' (and {more} more)' if more else ''}"


NOTHING_TO_DO = "Nothing."
UNKNOWN = "Not everything could be tested. There may be more to do."


def view(report: ProbeReport | GateReport) -> ReleaseView:
    """Return the view of a probe or a gate."""
    probe, gate = (report.probe, report) if isinstance(report, GateReport) else (report, None)
    decision = gate.decision if gate else GateDecision(GateOutcome.PASS, ())
    counts = Counter(release.verdict for release in probe.releases if release.verdict)
    verdicts = {verdict: counts[verdict] for verdict in reversed(Verdict)}
    differences = [row for row in gate.differences if row.impact is not Impact.NONE] if gate else []
    fallen = tuple(row for row in differences if (row.kind, row.after) == ("clause", Result.NOT_RUN))
    headline = gate_headline(gate) if gate else probe_headline(probe, verdicts)
    remarks = [*gate_remarks(gate.newer, decision, probe.fail_on), *_changes(gate)] if gate else probe_remarks(probe)
    releases = [gate.newer] if gate else probe.releases
    return ReleaseView(
        kind="gate" if gate else "probe",
        report=report,
        turngate=probe.turngate,
        started_at=probe.started_at,
        seconds=report.seconds,
        exit_code=report.exit_code,
        interrupted=probe.interrupted,
        outcome=gate.outcome if gate else "",
        headline=headline,
        meaning=gate_meaning(gate) if gate else meaning(probe),
        meta=tuple(_meta(probe)),
        counts=tuple(_impacts(gate) if gate else _verdicts(verdicts)),
        remarks=tuple(remarks),
        actions=gate.actions if gate else known_caveats(probe.releases),
        remaining=_remaining(gate) if gate else "",
        suites=tuple(_suite(probe, gate, release, headline) for release in releases),
        marks=MARKS if gate else MARKS[:-1],
        columns=tuple(_column(number, release) for number, release in enumerate(probe.releases)),
        families=_families(probe.releases, {excuse.reason.about: excuse.text for excuse in decision.excused}),
        probe=probe,
        gate=gate,
        decision=decision,
        differences=tuple(row for row in differences if row not in fallen),
        fallen=fallen,
        contract_edits=contract_edits(gate) if gate else (),
        tool_access=tuple((release, row) for release in probe.releases for row in rows(release.tool_access)),
    )


def _changes(gate: GateReport) -> Iterator[Remark]:
    """Remark that a green upgrade needs changes."""
    if gate.changes_required:
        count = sum(action.new for action in gate.actions)
        reported = f"{count} change{'s' * (count != 1)} to your orchestrator before you upgrade from {gate.old.release}"
        yield _remark(gate.newer, "note", "", f"{CHANGES_REQUIRED}: {reported}")


def _remaining(gate: GateReport) -> str:
    if gate.outcome not in (GateOutcome.PASS, GateOutcome.FAIL) or gate.old.failed or gate.new.failed:
        return UNKNOWN
    return "" if gate.actions else NOTHING_TO_DO


def _meta(probe: ProbeReport) -> Iterator[str]:
    """Say how releases were tested."""
    yield f"level {probe.level}"
    if probe.fail_on is not FailOn.BROKEN:
        yield f"fails on {probe.fail_on}"
    cores = f"{probe.cores} core{'s' * (probe.cores != 1)}"
    yield f"{duration(probe.seconds)} on {cores}; the engines used {duration(probe.engine_seconds)} of CPU time"
    yield visible(f"{probe.machine.system} {probe.machine.arch}")
    yield visible(f"turngate {probe.turngate}")
    if probe.clauses:
        yield visible(f"only {', '.join(probe.clauses)}")


def _verdicts(verdicts: Mapping[Verdict, int]) -> Iterator[Count]:
    """Count the verdicts, unless there are none because clauses were selected."""
    if any(verdicts.values()):
        yield from (Count(word, count, VERDICT_SIGNS[word]) for word, count in verdicts.items())


def _impacts(gate: GateReport) -> Iterator[Count]:
    return (Count(impact, count, IMPACT_SIGNS[impact]) for impact, count in gate.counts.items())


def _suite(probe: ProbeReport, gate: GateReport | None, release: ReleaseReport, headline: str) -> Suite:
    cases = gate_cases(release, gate.decision, probe.fail_on) if gate else probe_cases(release, probe.fail_on)
    properties = {
        "turngate": probe.turngate,
        "level": probe.level,
        "verdict": release.verdict or "",
        "clause_set": release.clause_set,
        "profile": profile_of(release),
        "contract_version": release.contract_version,
        "executable": release.executable or "",
        "source": release.source,
    }
    if gate:
        properties |= {"upgrade from": gate.old.release, "outcome": gate.outcome, "headline": headline}
    times = {clause.id: _seconds(release, clause) for clause in release.clauses}
    return Suite(name_of(release), gate.seconds if gate else release.seconds, properties, tuple(cases), times)


def _seconds(release: ReleaseReport, clause: ClauseResult) -> float:
    """Return the duration of the turns in a clause's evidence or, without evidence, of those of its cases."""
    evidence = {item if isinstance(item, str) else getattr(item, "turn", "") for item in clause.evidence}
    named = release.durations.keys() & evidence
    if not named and clause.id in CHECKS:
        named = {turn for turn in release.durations if turn.partition("/")[0] in CHECKS[clause.id].cases}
    return sum(release.durations[turn] for turn in named)


_MARKS: Final[tuple[tuple[Sign, str], ...]] = (
    ("pass", "the release behaved as the clause requires"),
    ("fail", "the release violated the clause, and nothing excuses it"),
    (
        "deviates",
        "the release violated the clause, as its contract declares; the detail says what your orchestrator must do",
    ),
    ("stale", "the release passed, although its contract declares a deviation"),
    ("unsupported", "the release lacks this feature"),
    ("not_run", "the clause could not be tested; the detail says why"),
    ("excused", "the release violated the clause, and the baseline excuses it"),
)
MARKS = tuple(Mark(sign, sign, label(sign), meaning) for sign, meaning in _MARKS)
VERDICT_SIGNS: Final[Mapping[str, Sign]] = {
    "no verdict": "not_run",
    "compatible": "pass",
    "degraded": "deviates",
    "unanswered": "not_run",
    "broken": "fail",
}
IMPACT_SIGNS: Final[Mapping[str, Sign]] = {
    "breaking": "fail",
    "degraded": "deviates",
    "additive": "pass",
    "none": "unsupported",
}


def _column(number: int, release: ReleaseReport) -> Column:
    verdict = release.verdict or "no verdict"
    facts = tuple(_facts(release))
    summary, sign = verdict_of(release), VERDICT_SIGNS[verdict]
    return Column(number, release.engine, version_of(release), verdict, summary, sign, facts, release.failed)


def _facts(release: ReleaseReport) -> Iterator[Fact]:
    """Return what a page says about a release as a whole."""
    profile, able, handle = release.profile, release.capability, release.handle
    yield Fact("clauses", (counted(release),))
    yield Fact("profile", (f"{profile.kind.replace('_', ' ')}: {profile.reason}" if profile else NOT_TESTED,))
    ability = able and ("supported" if able.supported else "not reliable")
    yield Fact("resume", (f"{ability}, by {able.probe_method}: {able.detail}" if able else NOT_TESTED,))
    kind = f"({handle.handle_type.replace('_', ' ')})" if handle else "none"
    yield Fact("handle", (kind,), handle.handle_value if handle else "")
    yield Fact("executable", (f"{release.executable or 'none was run'} ({from_where(release.source)})",))
    if release.note:
        yield Fact("note", (release.note,))
    unverified = f"; unverified: {', '.join(release.unverified)}" if release.unverified else ""
    yield Fact("contract", (f"{release.contract_version}{unverified}",))
    for mode, access in release.tool_access.modes() if release.tool_access else ():
        yield Fact(mode, tuple(_access(access)))
    cpu = f"{release.engine_seconds:.1f} s of the engine's CPU time"
    yield Fact("cost", (f"{release.turns} turns, {release.seconds:.1f} s, {cpu}",))


def _access(access: ModeToolAccess) -> Iterator[str]:
    if call := access.call:
        yield f"{call.tool}: {call.outcome}" + (f"; the model was told: {call.reported}" if call.reported else "")
    yield f"tools offered: {', '.join(access.tools or ()) or 'none'}"


def _families(releases: Sequence[ReleaseReport], excused: Mapping[str, str]) -> tuple[RowFamily, ...]:
    """Return the rows by the first word of their clause, in the catalogue's order; unknown clauses come last."""
    results = [{clause.id: clause for clause in release.clauses} for release in releases]
    present = {name for by_id in results for name in by_id}
    ids = [name for name in dict.fromkeys([*catalogue(), *(n for by_id in results for n in by_id)]) if name in present]
    families: dict[str, list[Row]] = {}
    for number, clause_id in enumerate(ids):
        cells = [_cell(by_id[clause_id]) if clause_id in by_id else None for by_id in results]
        if clause_id in excused and cells[-1]:
            cells[-1] = replace(cells[-1], mark=MARKS[-1], detail=excused[clause_id])
        severity = next(by_id[clause_id].severity for by_id in results if clause_id in by_id)
        entry, (family, _, short) = known(clause_id), clause_id.partition(".")
        sentence, why, to_do = (entry.sentence, entry.why, " ".join(advice(entry))) if entry else ("", "", "")
        row = Row(number, clause_id, short, severity, sentence, why, tuple(cells), to_do)
        families.setdefault(family, []).append(row)
    return tuple(RowFamily(name, tuple(listed)) for name, listed in families.items())


def _cell(clause: ClauseResult) -> Cell:
    return Cell(
        next(mark for mark in MARKS if mark.name == state(clause)),
        clause.detail,
        clause.level,
        clause.action,
        tuple(item for item in clause.evidence if not isinstance(item, str)),
        tuple(name for name in clause.evidence if isinstance(name, str)),
    )
