"""The report as SARIF 2.1.0, for code scanning: what failed, placed at the claim of the contract."""

import hashlib
import json
from collections.abc import Mapping
from itertools import islice
from typing import Any

from turngate.clauses import Severity
from turngate.load import catalogue
from turngate.plain import bounded, visible
from turngate_probes.report.build import Report
from turngate_probes.report.places import place_of
from turngate_probes.report.wording import failures, known, name_of

LEVELS = {Severity.BREAKING: "error", Severity.DEGRADED: "warning", Severity.INFORMATIVE: "note"}
MOST_RESULTS = 5000  # more are not shown by GitHub
LONGEST_MESSAGE = 1000

Json = dict[str, Any]


def sarif(report: Report) -> str:
    """Render the report; releases that could not be asked are notifications, since they say nothing of a clause."""
    found = failures(report)
    results = [_result(release, clause) for release, clause in islice(found, MOST_RESULTS)]
    left_out = sum(1 for _ in found)
    notes = [_notification(_not_asked(each)) for each in report["releases"] if each["failed"]]
    if left_out:
        notes.append(_notification(f"{left_out} more failures are left out"))
    run = {
        "tool": {"driver": _driver(report, [each["ruleId"] for each in results])},
        "automationDetails": {"id": f"turngate/{report['level']}/"},
        "invocations": [{"executionSuccessful": not report["interrupted"], "toolExecutionNotifications": notes}],
        "results": results,
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, allow_nan=False) + "\n"


def _driver(report: Report, named: list[str]) -> Json:
    ids = list(dict.fromkeys([*(each.id for each in catalogue().clauses), *named]))
    return {"name": "turngate", "semanticVersion": visible(report["turngate"]), "rules": [_rule(each) for each in ids]}


def _rule(clause_id: str) -> Json:
    entry = known(clause_id)
    if entry is None:
        return {"id": clause_id}
    return {
        "id": clause_id,
        "shortDescription": {"text": entry.sentence},
        "fullDescription": {"text": f"{entry.sentence} {entry.why}"},
        "help": {"text": entry.why},
        "defaultConfiguration": {"level": LEVELS[entry.severity]},
    }


def _result(release: Report, clause: Mapping[str, Any]) -> Json:
    message = f"{name_of(release)}: {visible(bounded(clause['detail'], LONGEST_MESSAGE))}"
    place = place_of(release, clause["id"])
    identity = hashlib.sha256(f"{name_of(release)}\n{clause['id']}".encode()).hexdigest()[:16]
    return {
        "ruleId": visible(clause["id"]),
        "level": LEVELS[clause["severity"]],
        "message": {"text": message},
        "locations": [] if place is None else [_location(*place)],
        # the first is what GitHub knows an alert by
        "partialFingerprints": {"primaryLocationLineHash": f"{identity}:1", "turngateReleaseClause/v1": identity},
        "properties": {"release": name_of(release), "severity": clause["severity"], "verdict": release["verdict"]},
    }


def _location(file: str, line: int) -> Json:
    return {"physicalLocation": {"artifactLocation": {"uri": file}, "region": {"startLine": line}}}


def _not_asked(release: Report) -> str:
    return f"{name_of(release)} could not be asked: {visible(release['failed']['what'])}"


def _notification(text: str) -> Json:
    return {"level": "error", "message": {"text": text}}
