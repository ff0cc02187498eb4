"""What is wrong with releases, and what was excused, as every format tells it."""

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from turngate.contract.clauses import Severity
from turngate.contract.verdict import ClauseResult
from turngate_probes.report.gate_structs import GateReason, GateReport
from turngate_probes.report.source_locations import Place, below, place_of
from turngate_probes.report.structs import ProbeReport, ReleaseReport
from turngate_probes.report.wording import failures, known, name_of

LEVELS: dict[Severity, Literal["error", "warning", "note"]] = {
    Severity.BREAKING: "error", Severity.DEGRADED: "warning", Severity.INFORMATIVE: "note",
}  # fmt: skip


class Remark(Struct, frozen=True):
    """One remark on a release; `about` tells it apart from all others of that release.

    `rule` is the clause that fails, or the kind of reason (None: nothing that the engine did); `severity` is that of
    a clause; `clause` or `at`, an entry of a baseline, say where it has its place.
    """

    release: ReleaseReport
    level: Literal["error", "warning", "note"]
    about: str
    text: str
    rule: str | None = None
    severity: Severity | None = None
    clause: str | None = None
    at: str = ""

    @property
    def title(self) -> str:
        """The release, and what the remark is about."""
        name = name_of(self.release)
        return f"{name} {self.about.removeprefix(f'{name}: ')}".rstrip()

    @property
    def place(self) -> Place | None:
        """The place of the claim that the remark is about, or of the entry of the baseline."""
        if not self.at:
            return place_of(self.release, self.clause) if self.clause else None
        file, _, line = self.at.rpartition(":")
        path = below(file)
        return (path, int(line)) if path and line.isdecimal() else None


def remarks(report: ProbeReport | GateReport) -> Iterator[Remark]:
    """Return the remarks of a report, the severest first; those of a gate are on the newer release alone."""
    if isinstance(report, GateReport):
        yield from _of_gate(report)
        return
    for release in report.releases:
        if release.failed:
            yield Remark(release, "error", "", f"could not be asked: {release.failed.what}")
    for release, clause in failures(report.releases):
        yield _failed(release, clause)


def _of_gate(report: GateReport) -> Iterator[Remark]:
    new, told = report.judged, set[str]()
    for reason in report.ruling.reasons:
        told.add(reason.about)
        rule = reason.about if reason.kind == "clause" else f"gate.{reason.kind}"
        yield _reason(new, reason, "error", reason.text, rule)
    told |= {excuse.reason.about for excuse in report.ruling.excused}
    yield from (_failed(new, clause) for _, clause in failures([new]) if clause.id not in told)
    for excuse in report.ruling.excused:
        yield _reason(new, excuse.reason, "note", excuse.text, None)


def _reason(
    release: ReleaseReport, reason: GateReason, level: Literal["error", "note"], text: str, rule: str | None
) -> Remark:
    clause = reason.clause if reason.clause and known(reason.clause) else None
    return Remark(release, level, reason.about, text, rule, None, clause, reason.at)


def _failed(release: ReleaseReport, clause: ClauseResult) -> Remark:
    level = LEVELS[clause.severity]
    return Remark(release, level, clause.id, clause.detail, clause.id, clause.severity, clause.id)
