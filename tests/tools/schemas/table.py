"""The files of `schema/` and how each is generated; `python -m tests.tools.schemas` writes them."""

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.tools.schemas import contracts, reports
from tests.tools.schemas.generate import Schema, text
from turngate.contract import load

FOLDER = Path(load.__file__).parents[1] / "schema"
SCHEMAS: Mapping[str, Callable[[], Schema]] = {
    "engine": contracts.engine,
    "simulation": contracts.simulation,
    "bisect-report": reports.bisect_report,
    "history-report": reports.history_report,
    "conform-baseline": reports.conform_baseline,
    "conform-report": reports.conform_report,
    "doctor-report": reports.doctor_report,
    "gate-baseline": reports.gate_baseline,
    "handle-record": reports.handle_record,
    "gate-report": reports.gate_report,
    "recorded-page": reports.recorded_page,
    "recording": reports.recording,
    "probe-events": reports.probe_events,
    "probe-report": reports.probe_report,
}


def text_of(name: str) -> str:
    """Return the text of a generated file."""
    return text(SCHEMAS[name]()) + "\n"
