"""Reports as SARIF 2.1.0, for code scanning: what failed, placed in the user's repository."""

import hashlib
import json
from collections.abc import Iterable
from importlib.metadata import metadata
from typing import Any
from urllib.parse import quote

from turngate.contract.clauses import Severity
from turngate.contract.load import catalogue
from turngate.sanitize import bounded, visible
from turngate_probes.report.judgement import OPEN
from turngate_probes.report.release_view import ReleaseView
from turngate_probes.report.source_locations import Place, unplaced
from turngate_probes.report.view import CHANGE, JudgedCase, RemarkLevel, View
from turngate_probes.report.wording import advice, known

MOST_RESULTS = 5000  # more are not shown by GitHub
LONGEST_MESSAGE = 1000
UNPLACED = "turngate.sarif"
EFFECTS = {
    Severity.BREAKING: "If it fails, the release is broken: do not upgrade.",
    Severity.DEGRADED: "If it fails, the release is degraded: check whether your orchestrator depends on it.",
    Severity.INFORMATIVE: "If it fails, the release is degraded, but no orchestrator should depend on it.",
}
EVIDENCE = "The HTML and JSON reports of the same run show the commands and their output."
NO_RESULT = "The gate can't say whether you can upgrade."
GATE_RULES = {
    "option": "The new release no longer accepts an option that callers may pass.",
    "command": "The new release no longer has a command, or an option of one, that the contract uses.",
    "protocol": "The new release no longer has a message or a field that turngate uses, or requires another one.",
    "session": "The new release stores sessions in another form.",
    "feature": "The new release has other features on by default.",
    "variable": "The help pages of the new release name other environment variables.",
    "listed-model": "The new release lists other models.",
    "event": "The new release no longer prints a kind of record that the contract reads.",
    "key": "The new release no longer prints a key that the contract reads.",
    "tool": "The new release no longer offers a tool to the model.",
    "model": "Turns run with another model.",
    "call": "A tool call by the model ends differently.",
    "claim": "The contract requires something else of the new release.",
    "deviation": "The new release has another known caveat.",
    "baseline": "A failure that the baseline expects no longer occurs.",
    "change": "Your orchestrator must do something else with the new release.",
    "unanswered": "Part of one of the two releases could not be tested.",
    "crashed": "turngate itself failed, so the new release was not judged.",
    "interrupted": "The gate was interrupted before it had a result.",
}

Json = dict[str, Any]


def sarif(view: ReleaseView, fallback: str = UNPLACED) -> str:
    """Render a report; untested releases and excused failures are notifications, not results.

    Results without a known file in the user's repository point at the file `fallback`, and a notification says so.
    """
    scope = f"gate/{view.gate.engine}" if view.gate else view.probe.level
    results = [remark for remark in view.remarks if remark.rule]
    results += [case for suite in view.suites for case in suite.cases if case.rule == CHANGE]
    notes = [_notification(remark) for remark in view.remarks if not remark.rule]
    if left_out := len(results[MOST_RESULTS:]):
        notes.append(_note("error", f"{left_out} more failures are not shown"))
    results = results[:MOST_RESULTS]
    if any(remark.place is None for remark in results):
        notes.append(_note("warning", unplaced(fallback)))
    run = {
        "tool": {"driver": _driver(view, [remark.rule for remark in results if remark.rule])},
        "automationDetails": {"id": f"turngate/{scope}/"},  # tells alerts apart from those of other runs
        "invocations": [{"executionSuccessful": not view.interrupted, "toolExecutionNotifications": notes}],
        "results": [_result(remark, remark.place or (fallback, 1)) for remark in results],
    }
    log = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, allow_nan=False) + "\n"


def _driver(view: View, rules: Iterable[str]) -> Json:
    ids = dict.fromkeys([*catalogue(), *rules])
    driver = {"name": "turngate", "semanticVersion": visible(view.turngate), "rules": [_rule(name) for name in ids]}
    urls = dict(url.split(", ", 1) for url in metadata("turngate").get_all("Project-URL", ()))
    return driver | ({"informationUri": urls["Homepage"]} if "Homepage" in urls else {})


def _rule(clause_id: str) -> Json:
    if entry := known(clause_id):
        level: RemarkLevel = "error" if entry.severity is Severity.BREAKING else "warning"
        sentence, why = entry.sentence, " ".join((entry.why, EFFECTS[entry.severity], *advice(entry)))
    else:
        kind = clause_id.removeprefix("gate.")
        level, why = "error", NO_RESULT if kind in OPEN else "The gate fails because of it."
        if clause_id == CHANGE:
            level, why = "note", "Change it before you upgrade."
        sentence = GATE_RULES.get(kind, "This version of turngate doesn't know the clause.")
    return {
        "id": visible(clause_id),
        "shortDescription": {"text": sentence},
        "fullDescription": {"text": f"{sentence} {why}"},
        "help": {"text": f"{sentence} {why} {EVIDENCE}", "markdown": f"**{sentence}**\n\n{why}\n\n{EVIDENCE}"},
        "defaultConfiguration": {"level": level},
    }


def _result(remark: JudgedCase, place: Place) -> Json:
    release, name, (file, line) = remark.release, remark.subject, place
    identity = hashlib.sha256(f"{name}\n{remark.about}".encode()).hexdigest()[:16]
    properties = {"release": name} | (
        {"verdict": release.verdict, "clauseSet": release.clause_set, "source": release.source} if release else {}
    )
    if remark.clause:
        properties["severity"] = remark.clause.severity
    return {
        "ruleId": visible(remark.rule or ""),
        "level": remark.level,
        "message": {"text": f"{name}: {visible(bounded(remark.text, LONGEST_MESSAGE))}"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": quote(file)}, "region": {"startLine": line}}}],
        # GitHub identifies an alert by the first
        "partialFingerprints": {"primaryLocationLineHash": f"{identity}:1", "turngateReleaseClause/v1": identity},
        "properties": properties,
    }


def _notification(remark: JudgedCase) -> Json:
    text = visible(bounded(remark.text, LONGEST_MESSAGE))
    whole = text if remark.level == "note" else f"{remark.subject} {text}"
    return _note(remark.level, whole)


def _note(level: str, text: str) -> Json:
    return {"level": level, "message": {"text": text}}
