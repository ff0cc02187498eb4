"""How each clause of a release is judged, as the exit code does: what makes it 1 fails in every format."""

from collections.abc import Iterator

from turngate.contract.clauses import Result, Severity
from turngate.contract.verdict import ClauseResult, FailOn, Verdict
from turngate_probes.report.build import bugs, standing
from turngate_probes.report.reports import (
    GateDecision,
    GateReason,
    ReleaseReport,
)
from turngate_probes.report.view import (
    JudgedCase,
)
from turngate_probes.report.wording import label, state

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
