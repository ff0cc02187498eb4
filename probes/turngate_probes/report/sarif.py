"""The report as SARIF 2.1.0, for code scanning: what failed, placed at the claim of the contract."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from turngate.contract.clauses import Severity
from turngate.contract.load import catalogue
from turngate.contract.verdict import ClauseResult
from turngate.sanitize import bounded, visible
from turngate_probes.report.source_locations import place_of
from turngate_probes.report.structs import NotAsked, ProbeReport, ReleaseReport
from turngate_probes.report.wording import failures, known, name_of

LEVELS = {Severity.BREAKING: "error", Severity.DEGRADED: "warning", Severity.INFORMATIVE: "note"}
MOST_RESULTS = 5000  # more are not shown by GitHub
LONGEST_MESSAGE = 1000

Json = dict[str, Any]


def sarif(report: ProbeReport) -> str:
    """Render the report; releases that could not be asked are notifications, since they say nothing of a clause."""
    found = failures(report.releases)
    results = (result_of(release, clause) for release, clause in found)
    notes = [notification(_not_asked(each, each.failed)) for each in report.releases if each.failed]
    return written(report, report.level, results, notes)


def written(report: ProbeReport, what: str, found: Iterable[Json], notes: Sequence[Json] = ()) -> str:
    """Write results and notifications as a log; `what` tells alerts apart from those of other runs."""
    rest = iter(found)
    results = list(islice(rest, MOST_RESULTS))
    left_out = sum(1 for _ in rest)
    notes = [*notes, *([notification(f"{left_out} more failures are left out")] if left_out else ())]
    run = {
        "tool": {"driver": _driver(report, [each["ruleId"] for each in results])},
        "automationDetails": {"id": f"turngate/{what}/"},
        "invocations": [{"executionSuccessful": not report.interrupted, "toolExecutionNotifications": notes}],
        "results": results,
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, allow_nan=False) + "\n"


def _driver(report: ProbeReport, named: list[str]) -> Json:
    ids = list(dict.fromkeys([*(each.id for each in catalogue().clauses), *named]))
    return {"name": "turngate", "semanticVersion": visible(report.turngate), "rules": [_rule(each) for each in ids]}


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


def result_of(release: ReleaseReport, clause: ClauseResult) -> Json:
    """Tell of a clause that failed."""
    found = result(release, clause.id, clause.id, clause.detail, place_of(release, clause.id))
    return found | {
        "level": LEVELS[clause.severity],
        "properties": {**found["properties"], "severity": clause.severity},
    }


def result(release: ReleaseReport, rule: str, about: str, text: str, place: tuple[str, int] | None) -> Json:
    """Tell of something that is wrong with a release; `about` tells it from all else."""
    identity = hashlib.sha256(f"{name_of(release)}\n{about}".encode()).hexdigest()[:16]
    return {
        "ruleId": visible(rule),
        "level": "error",
        "message": {"text": f"{name_of(release)}: {visible(bounded(text, LONGEST_MESSAGE))}"},
        "locations": [] if place is None else [_location(*place)],
        # the first is what GitHub knows an alert by
        "partialFingerprints": {"primaryLocationLineHash": f"{identity}:1", "turngateReleaseClause/v1": identity},
        "properties": {"release": name_of(release), "verdict": release.verdict, "source": release.source},
    }


def _location(file: str, line: int) -> Json:
    return {"physicalLocation": {"artifactLocation": {"uri": file}, "region": {"startLine": line}}}


def _not_asked(release: ReleaseReport, failed: NotAsked) -> str:
    return f"{name_of(release)} could not be asked: {visible(failed.what)}"


def notification(text: str, level: str = "error") -> Json:
    """Tell of what is no result."""
    return {"level": level, "message": {"text": text}}
