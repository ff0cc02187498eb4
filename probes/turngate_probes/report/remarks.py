"""Remarks on releases: what is unanswered, what failed and what is excused, most severe first."""

from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from turngate.contract.clauses import Severity
from turngate.contract.verdict import ClauseResult, FailOn
from turngate_probes.report.gate_structs import Ruling
from turngate_probes.report.judgement import JudgedCase, gate_cases, probe_cases
from turngate_probes.report.source_locations import Place, place_of
from turngate_probes.report.structs import ProbeReport, ReleaseReport
from turngate_probes.report.wording import name_of

RemarkLevel: TypeAlias = Literal["error", "warning", "note"]

# most severe first
REMARK_LEVELS: Final[dict[Severity, RemarkLevel]] = {
    Severity.BREAKING: "error", Severity.DEGRADED: "warning", Severity.INFORMATIVE: "warning",
}  # fmt: skip


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
