"""What every format shows of a report, decided once: headline, judged clauses, remarks, differences, tool access."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from turngate.contract.clauses import Result
from turngate.contract.verdict import ClauseResult, FailOn, Verdict
from turngate_probes.journal.tool_access import ToolAccessRow, rows
from turngate_probes.report.gate_structs import Difference, GateOutcome, GateReason, GateReport, Impact, Ruling
from turngate_probes.report.headline import gate_headline, meaning, probe_headline
from turngate_probes.report.remarks import Remark, gate_remarks, probe_remarks
from turngate_probes.report.structs import ProbeReport, ReleaseReport
from turngate_probes.report.wording import state

Judgement: TypeAlias = Literal["passed", "noted", "skipped", "failed", "open"]

ANSWERED = "turngate.answered"
OPEN = ("unanswered", "interrupted")
ACTIONS = "What your orchestrator must do"


class JudgedCase(Struct, frozen=True):
    """A clause of a release, or another reason of a gate, as test reports judge it.

    `kind` says what kind of failure it is; what a `clause` showed, or a `hint`, belongs to it.
    """

    name: str
    judgement: Judgement
    text: str
    kind: str = ""
    clause: ClauseResult | None = None
    hint: str = ""


class Action(Struct, frozen=True):
    """What an orchestrator must do about a known caveat, and the releases that have it."""

    clause: str
    text: str
    releases: tuple[str, ...]


class View(Struct, frozen=True):
    """A report as every format shows it.

    gate: The report of the gate whose probe this is; None for a probe alone.
    ruling: That of the gate; empty for a probe alone.
    meaning: What the exit code of the probe means.
    verdicts: The number of releases of each verdict, the worst first.
    remarks: What is wrong and what is excused, the severest first; those of a gate are on the newer release alone.
    actions: What an orchestrator must do, a line for each known caveat; those of a gate are on the newer release alone.
    differences: Those that cost or bring something, except clauses that fell with others that they need.
    fallen: The clauses that fell with others that they need.
    """

    probe: ProbeReport
    gate: GateReport | None
    ruling: Ruling
    headline: str
    meaning: str
    verdicts: Mapping[Verdict, int]
    remarks: tuple[Remark, ...]
    actions: tuple[Action, ...]
    differences: tuple[Difference, ...]
    fallen: tuple[Difference, ...]
    tool_access: tuple[tuple[ReleaseReport, ToolAccessRow], ...]

    def cases(self, release: ReleaseReport) -> Iterator[JudgedCase]:
        """Return a case for each clause of a release and each other reason; what is excused is skipped."""
        reasons = {reason.about: reason for reason in self.ruling.reasons}
        excused = {excuse.reason.about: excuse.text for excuse in self.ruling.excused}
        for clause in release.clauses:
            # by either name, as a clause that failed or that was not answered
            reason = reasons.pop(clause.id, None) or reasons.pop(f"{release.release}: {clause.id}", None)
            excuse = excused.pop(clause.id, None)
            if reason:
                yield _against(reason, clause.id, clause)
            elif excuse:
                yield JudgedCase(clause.id, "skipped", excuse)
            elif self.gate and clause.result is Result.FAIL:
                yield JudgedCase(clause.id, "noted", f"fails, which is {clause.severity} alone: {clause.detail}")
            else:
                yield judged(clause, self.probe.fail_on)
        yield from (_against(reason, about) for about, reason in reasons.items())
        yield from (JudgedCase(about, "skipped", excuse) for about, excuse in excused.items())
        if release.verdict is Verdict.UNANSWERED and not self.gate:  # skipped cases alone would look green
            failed = release.failed
            message = failed.what if failed else "a breaking clause could not be run, so nothing is promised"
            yield JudgedCase(ANSWERED, "open", message, "unanswered", hint=failed.hint if failed else "")


def view(report: ProbeReport | GateReport) -> View:
    """Decide what is shown of a report."""
    probe, gate = (report.probe, report) if isinstance(report, GateReport) else (report, None)
    ruling = gate.ruling if gate else Ruling(GateOutcome.PASS, ())
    counts = Counter(release.verdict for release in probe.releases if release.verdict)
    verdicts = {verdict: counts[verdict] for verdict in reversed(Verdict)}
    differences = [row for row in gate.differences if row.impact is not Impact.NONE] if gate else []
    fallen = tuple(row for row in differences if (row.kind, row.after) == ("clause", Result.NOT_RUN))
    return View(
        probe, gate, ruling, gate_headline(gate) if gate else probe_headline(probe, verdicts), meaning(probe), verdicts,
        tuple(gate_remarks(gate.judged, ruling) if gate else probe_remarks(probe.releases)),
        _actions([gate.judged] if gate else probe.releases),
        tuple(row for row in differences if row not in fallen), fallen,
        tuple((release, row) for release in probe.releases for row in rows(release.tool_access)),
    )  # fmt: skip


def judged(clause: ClauseResult, fail_on: FailOn = FailOn.BROKEN) -> JudgedCase:
    """Judge a clause as a probe does: what makes its exit code 1 fails, and so does what breaks the contract."""
    said = f"{state(clause).replace('_', ' ')}: {clause.detail}"
    if clause.result is Result.FAIL:
        return JudgedCase(clause.id, "failed", clause.detail, clause.severity, clause)
    if clause.result in (Result.UNSUPPORTED, Result.NOT_RUN):
        return JudgedCase(clause.id, "skipped", said)
    if clause.stale and fail_on is not FailOn.BROKEN:
        return JudgedCase(clause.id, "failed", clause.detail, "stale")
    if clause.result is Result.DEVIATES and fail_on is FailOn.CAVEAT:
        return JudgedCase(clause.id, "failed", f"{clause.detail}; {clause.action}", "caveat")
    return JudgedCase(clause.id, "noted" if clause.stale or clause.result is Result.DEVIATES else "passed", said)


def _against(reason: GateReason, name: str, clause: ClauseResult | None = None) -> JudgedCase:
    if reason.kind in OPEN:
        return JudgedCase(name, "open", reason.text, reason.kind, clause)
    return JudgedCase(name, "failed", reason.text, "baseline" if reason.kind == "baseline" else "breaking", clause)


def _actions(releases: Iterable[ReleaseReport]) -> tuple[Action, ...]:
    having: dict[tuple[str, str], list[str]] = {}
    for release in releases:
        for clause in release.clauses:
            if clause.action:
                having.setdefault((clause.id, clause.action), []).append(release.release)
    return tuple(Action(clause, text, tuple(names)) for (clause, text), names in having.items())
