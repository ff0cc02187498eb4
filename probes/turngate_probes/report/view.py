"""What every format shows of a report, decided once: headline, judged clauses, remarks, differences, tool access."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from turngate.contract.clauses import Result
from turngate.contract.verdict import Verdict
from turngate_probes.journal.tool_access import ToolAccessRow, rows
from turngate_probes.report.gate_structs import Difference, GateOutcome, GateReport, Impact, Ruling
from turngate_probes.report.headline import gate_headline, meaning, probe_headline
from turngate_probes.report.judgement import JudgedCase, gate_cases, probe_cases
from turngate_probes.report.remarks import Remark, gate_remarks, probe_remarks
from turngate_probes.report.structs import ProbeReport, ReleaseReport

ACTIONS = "What your orchestrator must do"


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
        if self.gate:
            return gate_cases(release, self.ruling, self.probe.fail_on)
        return probe_cases(release, self.probe.fail_on)


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
        tuple(gate_remarks(gate.judged, ruling, probe.fail_on) if gate else probe_remarks(probe)),
        _actions([gate.judged] if gate else probe.releases),
        tuple(row for row in differences if row not in fallen), fallen,
        tuple((release, row) for release in probe.releases for row in rows(release.tool_access)),
    )  # fmt: skip


def _actions(releases: Iterable[ReleaseReport]) -> tuple[Action, ...]:
    having: dict[tuple[str, str], list[str]] = {}
    for release in releases:
        for clause in release.clauses:
            if clause.action:
                having.setdefault((clause.id, clause.action), []).append(release.release)
    return tuple(Action(clause, text, tuple(names)) for (clause, text), names in having.items())
