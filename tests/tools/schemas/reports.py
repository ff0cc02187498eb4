"""The schemas of the files that commands write, and of those they read besides contracts."""

from tests.tools.schemas.generate import Schema, schema
from turngate.contract.verdict import CallEvidence, TurnEvidence
from turngate_probes.conform.conform_report import ConformReport
from turngate_probes.doctor import DoctorReport
from turngate_probes.journal.events import Event
from turngate_probes.matrix.command import BisectReport
from turngate_probes.record.recording import RecordedPage, Recording
from turngate_probes.report.baseline import ExpectedBreach, ExpectedFailure
from turngate_probes.report.history import HistoryReport
from turngate_probes.report.reports import GateReport, ProbeReport
from turngate_reference.handle_record import HandleRecord


def probe_report() -> Schema:
    """Return the schema of the JSON report."""
    return schema(ProbeReport, TurnEvidence, CallEvidence, id="turngate.probe-report/2", title="Probe report")


def gate_report() -> Schema:
    """Return the schema of the JSON report of a gate."""
    return schema(GateReport, TurnEvidence, CallEvidence, id="turngate.gate-report/3", title="Gate report")


def probe_events() -> Schema:
    """Return the schema of one line of a journal."""
    return schema(Event, TurnEvidence, CallEvidence, id="turngate.probe-events/2", title="Probe event")


def bisect_report() -> Schema:
    """Return the schema of the JSON report of a bisection."""
    return schema(BisectReport, TurnEvidence, CallEvidence, id="turngate.bisect-report/1", title="Bisect report")


def history_report() -> Schema:
    """Return the schema of the JSON of `turngate history`."""
    return schema(HistoryReport, id="turngate.history-report/1", title="History of an engine")


def gate_baseline() -> Schema:
    """Return the schema of a baseline: a list of expected failures, possibly empty."""
    head = {
        "title": "Expected failures of a gate",
        "description": "a list of entries, each with engine, clause and reason",
    }
    return schema(list[ExpectedFailure], id="turngate.gate-baseline/1", **head) | {"type": ["array", "null"]}


def handle_record() -> Schema:
    """Return the schema of a handle record."""
    return schema(HandleRecord, id="turngate.handle-record/2", title="Handle record")


def recording() -> Schema:
    """Return the schema of a recorded turn."""
    return schema(Recording, id="turngate.recording/1", title="Recording")


def recorded_page() -> Schema:
    """Return the schema of a recorded command output."""
    return schema(RecordedPage, id="turngate.recorded-page/1", title="Recorded page")


def conform_report() -> Schema:
    """Return the schema of the JSON report on an orchestrator."""
    return schema(ConformReport, id="turngate.conform-report/1", title="Report on an orchestrator")


def conform_baseline() -> Schema:
    """Return the schema of a baseline for orchestrators: a list of expected breaches, possibly empty."""
    head = {
        "title": "Expected breaches of an orchestrator",
        "description": "a list of entries, each with rule and reason",
    }
    return schema(list[ExpectedBreach], id="turngate.conform-baseline/1", **head) | {"type": ["array", "null"]}


def doctor_report() -> Schema:
    """Return the schema of what `turngate doctor` found."""
    return schema(DoctorReport, id="turngate.doctor-report/1", title="Doctor report")
