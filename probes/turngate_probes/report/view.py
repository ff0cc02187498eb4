"""The content of a report, the same in every format: headline, judged clauses, remarks, differences, tool access."""

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct

from turngate.contract.clauses import Result
from turngate.contract.verdict import Verdict
from turngate_probes.journal.tool_access import ToolAccessRow, rows
from turngate_probes.report.actions import Action, known_caveats
from turngate_probes.report.gate_structs import Difference, GateOutcome, GateReport, Impact, Ruling
from turngate_probes.report.headline import CHANGES_REQUIRED, gate_headline, gate_meaning, meaning, probe_headline
from turngate_probes.report.judgement import JudgedCase, gate_cases, probe_cases
from turngate_probes.report.remarks import Remark, gate_remarks, probe_remarks
from turngate_probes.report.structs import ProbeReport, ReleaseReport

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
        probe, gate, ruling, gate_headline(gate) if gate else probe_headline(probe, verdicts),
        gate_meaning(gate) if gate else meaning(probe), verdicts,
        tuple([*gate_remarks(gate.judged, ruling, probe.fail_on), *_changes(gate)] if gate else probe_remarks(probe)),
        gate.actions if gate else known_caveats(probe.releases), _remaining(gate) if gate else "",
        tuple(row for row in differences if row not in fallen), fallen,
        tuple((release, row) for release in probe.releases for row in rows(release.tool_access)),
    )  # fmt: skip


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
