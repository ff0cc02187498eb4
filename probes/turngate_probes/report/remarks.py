"""Remarks on releases: what failed, what could not be asked and what is excused, the severest first."""

from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from turngate.contract.clauses import Result, Severity
from turngate.contract.verdict import ClauseResult
from turngate_probes.report.gate_structs import Ruling
from turngate_probes.report.source_locations import Place, below, place_of
from turngate_probes.report.structs import ReleaseReport
from turngate_probes.report.wording import known, name_of

RemarkLevel: TypeAlias = Literal["error", "warning", "note"]

# the severest first
REMARK_LEVELS: Final[dict[Severity, RemarkLevel]] = {
    Severity.BREAKING: "error", Severity.DEGRADED: "warning", Severity.INFORMATIVE: "note",
}  # fmt: skip


class Remark(Struct, frozen=True):
    """One remark on a release; `about` tells it apart from all others of that release.

    `rule` is the clause that fails, or the kind of reason (None: nothing that the engine did); `result` is that of a
    clause that failed; `clause` or `at`, an entry of a baseline, say where it has its place.
    """

    release: ReleaseReport
    level: RemarkLevel
    about: str
    text: str
    rule: str | None = None
    clause: str | None = None
    at: str = ""
    result: ClauseResult | None = None

    @property
    def title(self) -> str:
        """The release, and what the remark is about."""
        name = name_of(self.release)
        return f"{name} {self.about.removeprefix(f'{name}: ')}".rstrip()

    @property
    def place(self) -> Place | None:
        """The place of the claim that the remark is about, or of the entry of the baseline."""
        if not self.at:
            named = self.clause and (self.result or known(self.clause))
            return place_of(self.release, self.clause) if self.clause and named else None
        file, _, line = self.at.rpartition(":")
        path = below(file)
        return (path, int(line)) if path and line.isdecimal() else None


def gate_remarks(release: ReleaseReport, ruling: Ruling) -> Iterator[Remark]:
    """Remark on each reason of a ruling, then on what failed besides, then on what is excused."""
    for reason in ruling.reasons:
        rule = reason.about if reason.kind == "clause" else f"gate.{reason.kind}"
        yield Remark(release, "error", reason.about, reason.text, rule, reason.clause, reason.at)
    named = {reason.about for reason in (*ruling.reasons, *(excuse.reason for excuse in ruling.excused))}
    yield from (remark for remark in _failed([release]) if remark.about not in named)
    for excuse in ruling.excused:
        reason = excuse.reason
        yield Remark(release, "note", reason.about, excuse.text, None, reason.clause, reason.at)


def probe_remarks(releases: Iterable[ReleaseReport]) -> Iterator[Remark]:
    """Remark on each release that could not be asked, then on what failed."""
    for release in releases:
        if release.failed:
            yield Remark(release, "error", "", f"could not be asked: {release.failed.what}")
    yield from _failed(releases)


def _failed(releases: Iterable[ReleaseReport]) -> Iterator[Remark]:
    failed = [(release, clause) for release in releases for clause in release.clauses if clause.result is Result.FAIL]
    for severity, level in REMARK_LEVELS.items():
        for release, clause in failed:
            if clause.severity is severity:
                yield Remark(release, level, clause.id, clause.detail, clause.id, clause.id, result=clause)
