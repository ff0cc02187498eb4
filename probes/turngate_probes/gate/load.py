"""Reads reports of gates that were written earlier, by whomever: nothing of them is believed unchecked."""

from pathlib import Path

import msgspec

from turngate.contract.evidence import decode_hook
from turngate.contract.load import first_error
from turngate.errors import EnvironmentFailed
from turngate_probes.gate.presentation import GateReport, ruling_of
from turngate_probes.gate.publish import SCHEMA
from turngate_probes.gate.report import SCHEMA as NAME
from turngate_probes.report.load import read_json, told_otherwise
from turngate_probes.report.structs import ProbeReport


def load_gate(path: Path) -> GateReport | None:
    """Read the report of a gate; None if it is something else, EnvironmentFailed says why it is not believed."""
    if path.suffix.lower() != ".json":
        return None
    found = read_json(path)
    if not isinstance(found, dict) or found.get("schema") != NAME:
        return None
    try:
        wrong = first_error(SCHEMA, found)
        found["probe"] = msgspec.convert(found["probe"], ProbeReport, dec_hook=decode_hook)
        wrong = wrong or told_otherwise(found["probe"]) or _ruled_otherwise(found)
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        wrong = str(error)[:200] or type(error).__name__
    if wrong:
        raise EnvironmentFailed(f"{path} is no report: {wrong}", "give the report as `turngate gate` wrote it")
    return found


def _ruled_otherwise(report: GateReport) -> str | None:
    """Find an outcome, an exit code or reasons that do not follow from what is reported."""
    ruling = ruling_of(report)
    if (report["outcome"], report["exit_code"]) != (ruling.outcome, ruling.code):
        return f"it is called {report['outcome']}, but what it holds makes it {ruling.outcome}"
    if report["reasons"] != ruling.sentences:
        return "its reasons do not follow from what it holds"
    shown = [(report[side]["release"], report[side]["verdict"]) for side in ("old", "new")]
    if shown != [(release.release, release.verdict) for release in report["probe"].releases]:
        return "its releases are others than those of its probe"
    return None
