"""What GitHub Actions shows of a gate: an error for each reason, a warning for what it costs besides."""

from collections.abc import Iterator

from turngate_probes.gate.view import GateReport, costs, excuse, new_of, ruling_of, where
from turngate_probes.report.github import KINDS, Told, titled
from turngate_probes.report.places import place_of
from turngate_probes.report.wording import name_of


def told_of(report: GateReport) -> Iterator[Told]:
    """Tell of each reason, of each other clause that fails, and of what the baseline excuses."""
    new, ruling = new_of(report), ruling_of(report)
    name = name_of(new)
    for reason in ruling.reasons:
        yield "error", titled(f"{name} {reason.about.removeprefix(f'{name}: ')}", where(reason, new)), reason.text
    for clause in costs(report, ruling):
        yield KINDS[clause["severity"]], titled(f"{name} {clause['id']}", place_of(new, clause["id"])), clause["detail"]
    for reason, entry in ruling.excused:
        yield "notice", titled(f"{name} {reason.about}", where(reason, new)), excuse(reason, entry)
