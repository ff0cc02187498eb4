"""The schemas of what a probe writes."""

from tests.schemas.generate import Schema, schema
from turngate.contract.evidence import CallEvidence, TurnEvidence
from turngate_probes.journal.events import Event
from turngate_probes.report.gate_structs import GateReport
from turngate_probes.report.structs import ProbeReport


def probe_report() -> Schema:
    """Return the schema of the JSON report."""
    return schema(ProbeReport, TurnEvidence, CallEvidence, id="turngate.probe-report/1", title="Probe report")


def gate_report() -> Schema:
    """Return the schema of the JSON report of a gate."""
    return schema(GateReport, TurnEvidence, CallEvidence, id="turngate.gate-report/1", title="Gate report")


def probe_events() -> Schema:
    """Return the schema of a line of a journal."""
    return schema(Event, TurnEvidence, CallEvidence, id="turngate.probe-events/1", title="Probe event")
