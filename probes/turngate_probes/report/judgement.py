"""How each clause of a release is judged, as the exit code does, and what of it is remarked on.

What makes the exit code 1 fails in every format.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from turngate.contract.clauses import Result, Severity
from turngate.contract.verdict import ClauseResult, FailOn, Verdict
from turngate_probes.report.build import bugs, standing
from turngate_probes.report.reports import GateDecision, GateReason, ReleaseReport
from turngate_probes.report.view import JudgedCase, Judgement
from turngate_probes.report.wording import label, name_of, state

ANSWERED = "turngate.answered"
EXCUSED: Final = "excused"
OPEN = ("unanswered", "interrupted", "crashed")
# most severe first
REMARKED: tuple[Judgement, ...] = ("failed", "warned", "noted")
KINDS = (*Severity, "stale", "caveat")


def probe_cases(release: ReleaseReport, fail_on: FailOn) -> Iterator[JudgedCase]:
    """Judge each clause of a release. What leaves it unanswered is open, if necessary in a separate case."""
    unexplained, unanswered = set(bugs(release)), standing(release) is Verdict.UNANSWERED
    is_open = bool(unexplained)
    for clause in release.clauses:
        counts = clause.severity is Severity.BREAKING or release.verdict is None
        if clause.id in unexplained:
            yield _case(release, clause.id, "open", clause.detail, "crashed", clause)
        elif unanswered and clause.result is Result.NOT_RUN and counts and not release.failed:
            is_open = True
            yield _case(release, clause.id, "open", f"not run: {clause.detail}", "unanswered", clause)
        else:
            yield _judged(release, clause, fail_on)
    if failed := release.failed:
        yield replace(_case(release, ANSWERED, "open", failed.what, "unanswered"), hint=(failed.hint,))
    elif unanswered and not is_open:
        yield _case(release, ANSWERED, "open", "the release was not tested completely", "unanswered")


def gate_cases(release: ReleaseReport, decision: GateDecision, fail_on: FailOn) -> Iterator[JudgedCase]:
    """Judge each clause of the newer release, and each other reason; what is excused is skipped."""
    reasons = {reason.about: reason for reason in decision.reasons}
    excused = {excuse.reason.about: excuse for excuse in decision.excused}
    for clause in release.clauses:
        # by either name: as a clause that failed or as one that was not tested
        reason = reasons.pop(clause.id, None) or reasons.pop(f"{release.release}: {clause.id}", None)
        if reason:
            yield _against(release, reason, clause)
        elif excuse := excused.pop(clause.id, None):
            case = _case(release, clause.id, "skipped", excuse.text, clause=clause, at=excuse.reason.at)
            yield replace(case, state=EXCUSED, detail=excuse.text)
        else:
            yield _judged(release, clause, fail_on)
    yield from (_against(release, reason) for reason in reasons.values())
    for about, excuse in excused.items():
        yield _case(release, about, "skipped", excuse.text, at=excuse.reason.at)


def probe_remarks(cases: Sequence[Sequence[JudgedCase]]) -> Iterator[JudgedCase]:
    """Choose what is unanswered, then what makes the exit code 1, then everything else that is new."""
    for of_release in cases:
        if left_open := [case for case in of_release if case.judgement == "open"]:
            yield _unanswered(left_open)
    # the sort keeps the order of the releases
    problems = sorted(
        (case for of_release in cases for case in of_release if case.judgement in REMARKED),
        key=lambda case: (REMARKED.index(case.judgement), KINDS.index(case.kind)),
    )
    yield from (case for case in problems if case.kind != "caveat" or case.judgement == "failed")


def gate_remarks(cases: Sequence[JudgedCase], decision: GateDecision) -> Iterator[JudgedCase]:
    """Choose each reason of a decision, then other failures, then what is excused."""
    against = {case.about: case for case in cases if case.judgement in ("failed", "open")}
    skipped = {case.about: case for case in cases if case.judgement == "skipped"}
    yield from (against[reason.about] for reason in decision.reasons)
    yield from (case for case in cases if case.judgement == "warned")
    yield from (skipped[excuse.reason.about] for excuse in decision.excused)


def _judged(release: ReleaseReport, clause: ClauseResult, fail_on: FailOn) -> JudgedCase:
    judgement, kind = _judgement(clause, fail_on)
    text = clause.detail
    if clause.result is not Result.FAIL:
        detail = clause.detail.partition("; stale: ")[2] if state(clause) == "stale" else ""
        to_do = f"; to do: {clause.action}" if clause.action else ""
        text = f"{label(state(clause))}: {detail or clause.detail}{to_do}"
    # a note is about the contract, not about what the engine did
    rule = clause.id if judgement in ("failed", "warned") else None
    return _case(release, clause.id, judgement, text, kind, clause, rule=rule)


def _judgement(clause: ClauseResult, fail_on: FailOn) -> tuple[Judgement, str]:
    """Return how a clause is judged, and the kind of a failure or note."""
    if clause.result is Result.FAIL:
        fails = clause.severity is Severity.BREAKING or fail_on is not FailOn.BROKEN
        return "failed" if fails else "warned", clause.severity
    if clause.result in (Result.UNSUPPORTED, Result.NOT_RUN):
        return "skipped", ""
    if clause.stale and fail_on is not FailOn.BROKEN:
        return "failed", "stale"
    if clause.result is Result.DEVIATES:
        return "failed" if fail_on is FailOn.CAVEAT else "noted", "caveat"
    return ("noted", "stale") if clause.stale else ("passed", "")


def _against(release: ReleaseReport, reason: GateReason, clause: ClauseResult | None = None) -> JudgedCase:
    judgement: Judgement = "open" if reason.kind in OPEN else "failed"
    kind = clause.severity if clause and reason.kind == "clause" else reason.kind
    rule = reason.about if reason.about == reason.clause else f"gate.{reason.kind}"
    return _case(release, reason.about, judgement, reason.text, kind, clause, rule=rule, at=reason.at)


def _unanswered(left_open: Sequence[JudgedCase]) -> JudgedCase:
    """Say in one remark why a release is unanswered."""
    first, more = left_open[0], len(left_open) - 1
    text = f"unanswered: {first.name}: {first.text}{f' (and {more} more)' if more else ''}"
    if first.release and first.release.failed:
        text = f"could not be tested: {first.release.failed.what}"
    return replace(first, about="", text=text, clause=None)


def _case(
    release: ReleaseReport,
    about: str,
    judgement: Judgement,
    text: str,
    kind: str = "",
    clause: ClauseResult | None = None,
    rule: str | None = None,
    at: str = "",
) -> JudgedCase:
    case = JudgedCase(name_of(release), about, judgement, text, kind, clause, rule, at=at, release=release)
    return replace(case, state=state(clause), detail=clause.detail, context=clause.level) if clause else case
