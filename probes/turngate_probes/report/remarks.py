"""Remarks on what is unanswered, what failed and what is excused, most severe first."""

from collections.abc import Iterator, Sequence
from typing import Final

from turngate.contract.clauses import Severity
from turngate.contract.verdict import ClauseResult, FailOn
from turngate_probes.report.headline import CHANGES_REQUIRED
from turngate_probes.report.judgement import gate_cases, probe_cases
from turngate_probes.report.reports import (
    GateDecision,
    GateReport,
    ProbeReport,
    ReleaseReport,
)
from turngate_probes.report.view import (
    JudgedCase,
    Remark,
    RemarkLevel,
)
from turngate_probes.report.wording import name_of

# most severe first
REMARK_LEVELS: Final[dict[Severity, RemarkLevel]] = {
    Severity.BREAKING: "error",
    Severity.DEGRADED: "warning",
    Severity.INFORMATIVE: "warning",
}
# of judged cases; most severe first
LEVELS_OF: Final[dict[str, RemarkLevel]] = {"failed": "error", "warned": "warning", "noted": "note"}
KINDS = (*Severity, "stale", "caveat")


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
        key=lambda problem: (list(LEVELS_OF).index(problem[1].judgement), KINDS.index(problem[1].kind)),
    )
    yield from (_on(release, case) for release, case in problems if case.kind != "caveat" or case.judgement == "failed")


def changes_required(gate: GateReport) -> Iterator[Remark]:
    """Remark that a green upgrade needs changes."""
    if gate.changes_required:
        count = sum(action.new for action in gate.actions)
        reported = f"{count} change{'s' * (count != 1)} to your orchestrator before you upgrade from {gate.old.release}"
        yield _remark(gate.newer, "note", "", f"{CHANGES_REQUIRED}: {reported}")


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


def _on(release: ReleaseReport, case: JudgedCase) -> Remark:
    # a note is about the contract, not about what the engine did
    rule = None if case.judgement == "noted" else case.name
    return _remark(release, LEVELS_OF[case.judgement], case.name, case.text, rule, result=case.clause)


def _unanswered(release: ReleaseReport, left_open: Sequence[JudgedCase]) -> str:
    if release.failed:
        return f"could not be tested: {release.failed.what}"
    first, more = left_open[0], len(left_open) - 1
    return f"unanswered: {first.name}: {first.text}{f' (and {more} more)' if more else ''}"
