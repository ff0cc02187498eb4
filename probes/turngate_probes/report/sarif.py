"""Reports as SARIF 2.1.0, for code scanning: what failed, placed at the claim of the contract."""

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from turngate.contract.load import catalogue
from turngate.sanitize import bounded, visible
from turngate_probes.report.gate_structs import GateReport
from turngate_probes.report.remarks import REMARK_LEVELS, Remark
from turngate_probes.report.structs import ProbeReport
from turngate_probes.report.view import view
from turngate_probes.report.wording import known, name_of

MOST_RESULTS = 5000  # more are not shown by GitHub
LONGEST_MESSAGE = 1000

Json = dict[str, Any]


def sarif(report: ProbeReport | GateReport) -> str:
    """Render a report; what says nothing of an engine is a notification: releases not asked, what is excused."""
    shown = view(report)
    probe, what = shown.probe, "gate" if shown.gate else shown.probe.level
    results = [remark for remark in shown.remarks if remark.rule]
    notes = [_notification(remark) for remark in shown.remarks if not remark.rule]
    if left_out := len(results[MOST_RESULTS:]):
        notes.append({"level": "error", "message": {"text": f"{left_out} more failures are left out"}})
    results = results[:MOST_RESULTS]
    run = {
        "tool": {"driver": _driver(probe, [remark.rule for remark in results if remark.rule])},
        "automationDetails": {"id": f"turngate/{what}/"},  # tells alerts apart from those of other runs
        "invocations": [{"executionSuccessful": not probe.interrupted, "toolExecutionNotifications": notes}],
        "results": [_result(remark) for remark in results],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, allow_nan=False) + "\n"


def _driver(report: ProbeReport, rules: Iterable[str]) -> Json:
    ids = dict.fromkeys([*catalogue(), *rules])
    return {"name": "turngate", "semanticVersion": visible(report.turngate), "rules": [_rule(name) for name in ids]}


def _rule(clause_id: str) -> Json:
    entry = known(clause_id)
    if entry is None:
        return {"id": visible(clause_id)}
    return {
        "id": clause_id,
        "shortDescription": {"text": entry.sentence},
        "fullDescription": {"text": f"{entry.sentence} {entry.why}"},
        "help": {"text": entry.why},
        "defaultConfiguration": {"level": REMARK_LEVELS[entry.severity]},
    }


def _result(remark: Remark) -> Json:
    release, name = remark.release, name_of(remark.release)
    identity = hashlib.sha256(f"{name}\n{remark.about}".encode()).hexdigest()[:16]
    severity = {"severity": remark.result.severity} if remark.result else {}
    return {
        "ruleId": visible(remark.rule or ""),
        "level": remark.level,
        "message": {"text": f"{name}: {visible(bounded(remark.text, LONGEST_MESSAGE))}"},
        "locations": [] if remark.place is None else [_location(*remark.place)],
        # the first is what GitHub knows an alert by
        "partialFingerprints": {"primaryLocationLineHash": f"{identity}:1", "turngateReleaseClause/v1": identity},
        "properties": {"release": name, "verdict": release.verdict, "source": release.source, **severity},
    }


def _location(file: str, line: int) -> Json:
    return {"physicalLocation": {"artifactLocation": {"uri": file}, "region": {"startLine": line}}}


def _notification(remark: Remark) -> Json:
    text = visible(bounded(remark.text, LONGEST_MESSAGE))
    whole = text if remark.level == "note" else f"{name_of(remark.release)} {text}"
    return {"level": remark.level, "message": {"text": whole}}
