"""The report as JUnit XML: a suite for each release, a case for each clause."""

from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as ET

from turngate.clauses import Result
from turngate.plain import visible
from turngate.verdict import Verdict
from turngate_probes.report.build import Report
from turngate_probes.report.wording import evidence_text, known, name_of

LIKE_SKIPPED = (Result.UNSUPPORTED, Result.NOT_RUN)
ANSWERED = "turngate.answered"


def junit(report: Report) -> str:
    """Render the report. A release that is unanswered gets an error of its own, since skipped clauses look green."""
    root = ET.Element("testsuites", name="turngate", time=f"{report['seconds']:.3f}")
    suites = [_suite(report, release) for release in report["releases"]]
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in suites)))
    root.extend(suites)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(report: Report, release: Report) -> ET.Element:
    suite = ET.Element("testsuite", name=name_of(release), time=f"{release['seconds']:.3f}")
    suite.set("timestamp", visible(report["started_at"]))
    properties = ET.SubElement(suite, "properties")
    for key, value in _properties(report, release).items():
        ET.SubElement(properties, "property", name=key, value=visible(value))
    for clause in release["clauses"]:
        suite.append(_case(release, clause, strict=report["strict"]))
    if release["verdict"] == Verdict.UNANSWERED:
        suite.append(_unanswered(release))
    suite.set("tests", str(len(suite.findall("testcase"))))
    for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(key, str(len(suite.findall(f"testcase/{tag}"))))
    return suite


def _properties(report: Report, release: Report) -> dict[str, str]:
    return {
        "turngate": report["turngate"],
        "level": report["level"],
        "verdict": release["verdict"],
        "profile": release["profile"]["kind"],
        "contract_version": release["contract_version"],
        "executable": release["executable"] or "",
        "source": release["source"],
    }


def _case(release: Report, clause: Mapping[str, Any], *, strict: bool) -> ET.Element:
    case = ET.Element("testcase", classname=name_of(release), name=visible(clause["id"]))
    detail = visible(clause["detail"])
    if clause["result"] == Result.FAIL:
        _failure(case, clause["severity"], detail).text = _why(clause) + evidence_text(clause["evidence"])
    elif clause["result"] in LIKE_SKIPPED:
        ET.SubElement(case, "skipped", message=f"{clause['result'].replace('_', ' ')}: {detail}")
    elif clause["stale"] and strict:
        _failure(case, "stale", detail)
    elif clause["stale"] or clause["result"] == Result.DEVIATES:
        ET.SubElement(case, "system-out").text = f"{'stale' if clause['stale'] else 'deviates'}: {detail}"
    return case


def _failure(case: ET.Element, kind: str, message: str) -> ET.Element:
    return ET.SubElement(case, "failure", type=kind, message=message)


def _why(clause: Mapping[str, Any]) -> str:
    entry = known(clause["id"])
    return f"{entry.sentence}\nwhy: {entry.why}\n" if entry else ""


def _unanswered(release: Report) -> ET.Element:
    case = ET.Element("testcase", classname=name_of(release), name=ANSWERED)
    failed = release["failed"]
    message = failed["what"] if failed else "a breaking clause could not be run, so nothing is promised"
    ET.SubElement(case, "error", type="unanswered", message=visible(message)).text = visible(
        failed["hint"] if failed else ""
    )
    return case
