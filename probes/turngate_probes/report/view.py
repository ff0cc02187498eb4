"""The content of a report, the same in every format: headline, judged clauses, remarks, differences, tool access.

The words for a release, its verdict and its clauses are chosen here. So is how a clause is judged: what makes the exit
code 1 fails in every format. Remarks say what is unanswered, what failed and what is excused, most severe first.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from turngate.contract.clauses import Clause, Result, Severity
from turngate.contract.load import catalogue
from turngate.contract.verdict import ClauseResult, FailOn, Verdict
from turngate.sanitize import visible
from turngate_probes.journal.tool_access import ToolAccessRow, rows
from turngate_probes.report.build import bugs, standing
from turngate_probes.report.source_locations import Place, place_of
from turngate_probes.report.structs import (
    Action,
    Difference,
    GateOutcome,
    GateReason,
    GateReport,
    Impact,
    ProbeReport,
    ReleaseReport,
    Ruling,
    known_caveats,
)

NOT_TESTED: Final = "not tested"
LABELS: Final[dict[str, str]] = {Result.DEVIATES: "known caveat"}
MINUTE, TEN = 60, 10


def known(clause_id: str) -> Clause | None:
    """Return the catalogue's entry; None for a clause of another version of turngate."""
    return catalogue().get(clause_id)


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


def verdict_of(release: ReleaseReport) -> str:
    """Return the verdict of a release (none for selected clauses) with the number of its caveats."""
    caveats = sum(clause.result is Result.DEVIATES for clause in release.clauses)
    with_caveats = f", {caveats} known caveat{'s' * (caveats > 1)}" if caveats else ""
    return f"{release.verdict or 'no verdict'}{with_caveats}{basis(release)}"


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


def duration(seconds: float) -> str:
    """Return a readable duration: `0.4 s`, `12 s`, `3 min 3 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < MINUTE:
        return f"{seconds:.1f} s" if whole < TEN else f"{whole} s"
    minutes, rest = divmod(whole, MINUTE)
    hours, minutes = divmod(minutes, MINUTE)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


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
    1: "a release fails",
    2: "a release is unanswered",
    3: "turngate itself failed and can't say why a clause was not run; please report this bug",
    130: "interrupted",
}
FAILS = {
    FailOn.BROKEN: "a release is broken",
    FailOn.DEGRADED: "a release is broken or degraded, or a declared deviation no longer occurs",
    FailOn.CAVEAT: "a release is broken or degraded, or has known caveats",
}
NOTHING = "nothing was probed"


def gate_headline(report: GateReport) -> str:
    """Return what a gate says about the newer release."""
    said = f"{CHANGES_REQUIRED} before you upgrade from" if report.changes_required else UPGRADES[report.outcome]
    only = " (selected clauses only)" if report.clauses else ""
    return visible(f"{report.new.release}: {said} {report.old.release}{only}")


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
    """Return what the exit code of a probe means."""
    if not report.releases and not report.interrupted:
        return NOTHING
    return FAILS[report.fail_on] if report.exit_code == 1 else MEANING[report.exit_code]


# failed: the exit code is 1; open: it is 2 or 3; warned: a failure that leaves it 0; noted: a caveat, or stale
Judgement: TypeAlias = Literal["passed", "noted", "skipped", "warned", "failed", "open"]

ANSWERED = "turngate.answered"
OPEN = ("unanswered", "interrupted", "crashed")


class JudgedCase(Struct, frozen=True):
    """A clause of a release, or another reason of a gate, as test reports judge it.

    `kind` says what kind of failure it is; `clause` and `hint` add what was observed.
    """

    name: str
    judgement: Judgement
    text: str
    kind: str = ""
    clause: ClauseResult | None = None
    hint: str = ""

    @property
    def note(self) -> str:
        """The remark on a case that does not fail."""
        return f"{self.kind}: {self.text}" if self.judgement == "warned" else self.text


def judged(clause: ClauseResult, fail_on: FailOn = FailOn.BROKEN) -> JudgedCase:
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
            yield judged(clause, fail_on)
    if failed := release.failed:
        yield JudgedCase(ANSWERED, "open", failed.what, "unanswered", hint=failed.hint)
    elif unanswered and not is_open:
        yield JudgedCase(ANSWERED, "open", "the release was not tested completely", "unanswered")


def gate_cases(release: ReleaseReport, ruling: Ruling, fail_on: FailOn) -> Iterator[JudgedCase]:
    """Judge each clause of the newer release, and each other reason; what is excused is skipped."""
    reasons = {reason.about: reason for reason in ruling.reasons}
    excused = {excuse.reason.about: excuse.text for excuse in ruling.excused}
    for clause in release.clauses:
        # by either name: as a clause that failed or as one that was not tested
        reason = reasons.pop(clause.id, None) or reasons.pop(f"{release.release}: {clause.id}", None)
        excuse = excused.pop(clause.id, None)
        if reason:
            yield _against(reason, clause.id, clause)
        elif excuse:
            yield JudgedCase(clause.id, "skipped", excuse)
        else:
            yield judged(clause, fail_on)
    yield from (_against(reason, about) for about, reason in reasons.items())
    yield from (JudgedCase(about, "skipped", excuse) for about, excuse in excused.items())


def _against(reason: GateReason, name: str, clause: ClauseResult | None = None) -> JudgedCase:
    if reason.kind in OPEN:
        return JudgedCase(name, "open", reason.text, reason.kind, clause)
    kind = clause.severity if clause and reason.kind == "clause" else reason.kind
    return JudgedCase(name, "failed", reason.text, kind, clause)


RemarkLevel: TypeAlias = Literal["error", "warning", "note"]

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


class Remark(Struct, frozen=True):
    """One remark on a release; `about` distinguishes it from all other remarks on that release.

    `rule` is the clause that fails, or the kind of reason (None: nothing that the engine did); `at` is the entry of the
    baseline that it is about; `result` is that of a clause that failed.
    """

    release: ReleaseReport
    level: RemarkLevel
    about: str
    text: str
    rule: str | None = None
    at: str = ""
    result: ClauseResult | None = None

    @property
    def title(self) -> str:
        """The release, and what the remark is about."""
        name = name_of(self.release)
        return f"{name} {self.about.removeprefix(f'{name}: ')}".rstrip()

    @property
    def place(self) -> Place | None:
        """The location in the user's repository that the remark belongs to."""
        return place_of(self.release, self.at)


def gate_remarks(release: ReleaseReport, ruling: Ruling, fail_on: FailOn) -> Iterator[Remark]:
    """Remark on each reason of a ruling, then on other failures, then on what is excused."""
    for reason in ruling.reasons:
        rule = reason.about if reason.about == reason.clause else f"gate.{reason.kind}"
        yield Remark(release, "error", reason.about, reason.text, rule, reason.at)
    for case in gate_cases(release, ruling, fail_on):
        if case.judgement == "warned":
            yield _on(release, case)
    for excuse in ruling.excused:
        reason = excuse.reason
        yield Remark(release, "note", reason.about, excuse.text, None, reason.at)


def probe_remarks(report: ProbeReport) -> Iterator[Remark]:
    """Remark on what is unanswered, then on what makes the exit code 1, then on everything else that is new."""
    cases = [(release, list(probe_cases(release, report.fail_on))) for release in report.releases]
    for release, listed in cases:
        if left_open := [case for case in listed if case.judgement == "open"]:
            yield Remark(release, "error", "", _unanswered(release, left_open))
    # the sort keeps the order of the releases
    problems = sorted(
        ((release, case) for release, listed in cases for case in listed if case.judgement in LEVELS_OF),
        key=lambda problem: (SEVEREST_FIRST.index(problem[1].judgement), KINDS.index(problem[1].kind)),
    )
    yield from (_on(release, case) for release, case in problems if case.kind != "caveat" or case.judgement == "failed")


def _on(release: ReleaseReport, case: JudgedCase) -> Remark:
    # a note is about the contract, not about what the engine did
    rule = None if case.judgement == "noted" else case.name
    return Remark(release, LEVELS_OF[case.judgement], case.name, case.text, rule, result=case.clause)


def _unanswered(release: ReleaseReport, left_open: Sequence[JudgedCase]) -> str:
    if release.failed:
        return f"could not be tested: {release.failed.what}"
    first, more = left_open[0], len(left_open) - 1
    return f"unanswered: {first.name}: {first.text}{f' (and {more} more)' if more else ''}"


ACTIONS = "What your orchestrator must do"
NOTHING_TO_DO = "Nothing."
UNKNOWN = "Not everything could be tested. There may be more to do."


class View(Struct, frozen=True):
    """The content of a report in every format.

    gate: The report of the gate; None for a probe.
    ruling: The ruling of the gate; empty for a probe.
    meaning: What the exit code means.
    verdicts: The number of releases with each verdict, worst first.
    remarks: What is wrong and what is excused, most severe first; for a gate, only of the newer release.
    actions: What an orchestrator must do: one entry for each known caveat, and for each change of a gate.
    remaining: What a gate says if there is nothing to do, or possibly more.
    differences: Those with consequences, except the `fallen` ones.
    fallen: The clauses that are no longer testable because a prerequisite fails.
    """

    probe: ProbeReport
    gate: GateReport | None
    ruling: Ruling
    headline: str
    meaning: str
    verdicts: Mapping[Verdict, int]
    remarks: tuple[Remark, ...]
    actions: tuple[Action, ...]
    remaining: str
    differences: tuple[Difference, ...]
    fallen: tuple[Difference, ...]
    tool_access: tuple[tuple[ReleaseReport, ToolAccessRow], ...]

    def cases(self, release: ReleaseReport) -> Iterator[JudgedCase]:
        """Return a case for each clause of a release and each other reason; excused ones are skipped."""
        if self.gate:
            return gate_cases(release, self.ruling, self.probe.fail_on)
        return probe_cases(release, self.probe.fail_on)


def view(report: ProbeReport | GateReport) -> View:
    """Return the content of a report."""
    probe, gate = (report.probe, report) if isinstance(report, GateReport) else (report, None)
    ruling = gate.ruling if gate else Ruling(GateOutcome.PASS, ())
    counts = Counter(release.verdict for release in probe.releases if release.verdict)
    verdicts = {verdict: counts[verdict] for verdict in reversed(Verdict)}
    differences = [row for row in gate.differences if row.impact is not Impact.NONE] if gate else []
    fallen = tuple(row for row in differences if (row.kind, row.after) == ("clause", Result.NOT_RUN))
    return View(
        probe,
        gate,
        ruling,
        gate_headline(gate) if gate else probe_headline(probe, verdicts),
        gate_meaning(gate) if gate else meaning(probe),
        verdicts,
        tuple([*gate_remarks(gate.judged, ruling, probe.fail_on), *_changes(gate)] if gate else probe_remarks(probe)),
        gate.actions if gate else known_caveats(probe.releases),
        _remaining(gate) if gate else "",
        tuple(row for row in differences if row not in fallen),
        fallen,
        tuple((release, row) for release in probe.releases for row in rows(release.tool_access)),
    )


def _changes(gate: GateReport) -> Iterator[Remark]:
    """Remark that a green upgrade needs changes."""
    if gate.changes_required:
        count = sum(action.new for action in gate.actions)
        told = f"{count} change{'s' * (count != 1)} to your orchestrator before you upgrade from {gate.old.release}"
        yield Remark(gate.judged, "note", "", f"{CHANGES_REQUIRED}: {told}")


def _remaining(gate: GateReport) -> str:
    if gate.outcome not in (GateOutcome.PASS, GateOutcome.FAIL) or gate.old.failed or gate.new.failed:
        return UNKNOWN
    return "" if gate.actions else NOTHING_TO_DO
