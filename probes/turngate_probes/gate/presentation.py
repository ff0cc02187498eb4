"""What reports show of a gate: its ruling made anew from its report, so that each format says the same."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from turngate.contract.verdict import ClauseResult
from turngate_probes.gate.baseline import Entry
from turngate_probes.gate.classify import Difference
from turngate_probes.gate.ruling import INTERRUPTED, Reason, Ruling, rule
from turngate_probes.report.source_locations import Place, below, place_of
from turngate_probes.report.structs import ProbeReport, ReleaseReport
from turngate_probes.report.wording import failures, known

GateReport = Mapping[str, Any]


def ruling_of(report: GateReport) -> Ruling:
    """Judge what a report holds, as the gate did that wrote it."""
    old, new = report["probe"].releases
    found = [msgspec.convert(each, Difference) for each in report["differences"]]
    entries = [
        Entry(report["engine"], each["clause"], each["reason"], each["since"], each["until"], each["at"])
        for each in report["baseline"]["entries"]
    ]
    return rule(old, new, found, entries, interrupted=report["outcome"] == INTERRUPTED)


def new_of(report: GateReport) -> ReleaseReport:
    """Return the newer release, which alone is judged; the older one is there to be compared with."""
    probe: ProbeReport = report["probe"]
    return probe.releases[1]


def excuse(reason: Reason, entry: Entry) -> str:
    """Return what is excused, and why."""
    return f"excused by the baseline ({entry.reason}): {reason.text}"


def costs(report: GateReport, ruling: Ruling) -> Iterator[ClauseResult]:
    """Return the clauses that fail in the newer release and are no reason against it, though nothing excuses them."""
    told = {each.about for each in ruling.reasons} | {each.about for each, _ in ruling.excused}
    for _, clause in failures([new_of(report)]):
        if clause.id not in told:
            yield clause


def where(reason: Reason, release: ReleaseReport) -> Place | None:
    """Return the place of the claim that a reason is about, or of the entry of the baseline."""
    if reason.at:
        file, _, line = reason.at.rpartition(":")
        named = below(file)
        return (named, int(line)) if named and line.isdecimal() else None
    return place_of(release, reason.clause) if reason.clause and known(reason.clause) else None
