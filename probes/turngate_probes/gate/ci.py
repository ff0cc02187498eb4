"""The report of a gate as JUnit XML and as SARIF 2.1.0."""

from collections.abc import Iterator
from xml.etree import ElementTree as ET

from turngate.contract.clauses import Result
from turngate.contract.verdict import ClauseResult
from turngate.sanitize import bounded, visible
from turngate_probes.gate.presentation import GateReport, costs, excuse, new_of, ruling_of, where
from turngate_probes.gate.ruling import Reason, Ruling
from turngate_probes.report.junit import case_of, failure, properties_of, suite_of, text_of, usual_case, written
from turngate_probes.report.sarif import LONGEST_MESSAGE, notification, result, result_of
from turngate_probes.report.sarif import written as written_sarif
from turngate_probes.report.structs import ReleaseReport

OPEN = ("unanswered", "interrupted")


def junit(report: GateReport) -> str:
    """Render the report; what the baseline excuses is skipped, with the reason."""
    new, probe = new_of(report), report["probe"]
    more = {"in place of": report["old"]["release"], "outcome": report["outcome"]}
    properties = properties_of(probe, new) | more
    return written(
        [suite_of(probe, new, _cases(new, ruling_of(report)), properties, report["seconds"])], report["seconds"]
    )


def _cases(new: ReleaseReport, ruling: Ruling) -> Iterator[ET.Element]:
    reasons = {each.about: each for each in ruling.reasons}
    excused = {reason.about: excuse(reason, entry) for reason, entry in ruling.excused}
    for clause in new.clauses:
        name = clause.id
        # by either name, as a clause that failed or that was not answered
        reason = reasons.pop(name, None) or reasons.pop(f"{new.release}: {name}", None)
        yield _clause(new, clause, reason, excused.pop(name, None))
    for name, reason in reasons.items():
        yield _red(case_of(new, name), reason)
    for name, why in excused.items():
        yield _skipped(case_of(new, name), why)


def _clause(new: ReleaseReport, clause: ClauseResult, reason: Reason | None, excused: str | None) -> ET.Element:
    if reason:
        return _red(case_of(new, clause.id), reason, text_of(clause))
    if excused:
        return _skipped(case_of(new, clause.id), excused)
    if clause.result is not Result.FAIL:
        return usual_case(new, clause, strict=False)
    case = case_of(new, clause.id)
    ET.SubElement(case, "system-out").text = visible(f"fails, which is {clause.severity} alone: {clause.detail}")
    return case


def _red(case: ET.Element, reason: Reason, text: str = "") -> ET.Element:
    if reason.kind in OPEN:
        ET.SubElement(case, "error", type=reason.kind, message=visible(reason.text)).text = text
    else:
        failure(case, "baseline" if reason.kind == "baseline" else "breaking", reason.text).text = text
    return case


def _skipped(case: ET.Element, why: str) -> ET.Element:
    ET.SubElement(case, "skipped", message=visible(why))
    return case


def sarif(report: GateReport) -> str:
    """Render the report; what the baseline excuses is told beside the results."""
    new, ruling = new_of(report), ruling_of(report)
    results = [result(new, rule_of(each), each.about, each.text, where(each, new)) for each in ruling.reasons]
    results += [result_of(new, clause) for clause in costs(report, ruling)]
    notes = [notification(visible(bounded(excuse(*each), LONGEST_MESSAGE)), "note") for each in ruling.excused]
    return written_sarif(report["probe"], "gate", results, notes)


def rule_of(reason: Reason) -> str:
    """Name the rule: the clause that fails, or what kind of reason it is."""
    return reason.about if reason.kind == "clause" else f"gate.{reason.kind}"
