"""Reads reports of gates that were written earlier, by anyone: nothing of them is believed unchecked."""

from pathlib import Path

import msgspec

from turngate.contract.evidence import decode_hook
from turngate.errors import EnvironmentFailed
from turngate_probes.gate.report import counted, gated
from turngate_probes.gate.ruling import CODES, rule, sentences
from turngate_probes.report.gate_structs import GateOutcome, GateReport
from turngate_probes.report.load import read_json, refused, told_otherwise


def load_gate(path: Path) -> GateReport | None:
    """Read the report of a gate; None if it is something else, EnvironmentFailed says why it is not believed."""
    document = read_json(path) if path.suffix.lower() == ".json" else None
    if not isinstance(document, dict) or document.get("schema") != "turngate.gate-report/1":
        return None
    with refused(path):
        report = msgspec.convert(document, GateReport, dec_hook=decode_hook)
        wrong = told_otherwise(report.probe) or _ruled_otherwise(report)
    if wrong:
        raise EnvironmentFailed(f"{path} is no report: {wrong}", "give the report as `turngate gate` wrote it")
    return report


def _ruled_otherwise(report: GateReport) -> str | None:
    """Find an outcome, an exit code or reasons that do not follow from what is reported."""
    old, new = report.probe.releases
    interrupted = report.outcome is GateOutcome.INTERRUPTED
    ruling, entries = rule(old, new, report.differences, report.baseline.entries, interrupted=interrupted)
    if (report.outcome, report.exit_code) != (ruling.outcome, CODES[ruling.outcome]):
        return f"it is called {report.outcome}, but what it holds makes it {ruling.outcome}"
    if (report.ruling, report.reasons, report.baseline.entries) != (ruling, sentences(ruling), entries):
        return "its reasons do not follow from what it holds"
    if report.counts != counted(report.differences):
        return "its counts are not those of its differences"
    same = (report.old, report.new) == (gated(old), gated(new))
    return None if same else "its releases are others than those of its probe"
