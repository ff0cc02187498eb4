"""Reports as JUnit XML: a test suite for each release, a test case for each clause or scenario."""

from xml.etree import ElementTree as ET

from turngate.contract.verdict import ClauseResult
from turngate.sanitize import visible
from turngate_probes.report.evidence import evidence_text
from turngate_probes.report.view import JudgedCase, Suite, View
from turngate_probes.report.wording import advice, known

COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}
TAGS = {"failed": "failure", "open": "error"}


def junit(view: View) -> str:
    """Render a report; for a gate, only the newer release."""
    name = "turngate conform" if view.kind == "conform" else "turngate"
    root = ET.Element("testsuites", name=name, time=f"{view.seconds:.3f}")
    root.extend(_suite(suite, visible(view.started_at)) for suite in view.suites)
    for key in ("tests", *COUNTED):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(suite: Suite, started: str) -> ET.Element:
    element = ET.Element("testsuite", name=suite.name, time=f"{suite.seconds:.3f}", timestamp=started)
    listed = ET.SubElement(element, "properties")
    for key, value in suite.properties.items():
        ET.SubElement(listed, "property", name=key, value=visible(value))
    element.extend(_case(suite, case) for case in suite.cases)
    element.set("tests", str(len(suite.cases)))
    for key, tag in COUNTED.items():
        element.set(key, str(len(element.findall(f"testcase/{tag}"))))
    return element


def _case(suite: Suite, case: JudgedCase) -> ET.Element:
    element, text = ET.Element("testcase", classname=suite.name, name=visible(case.name)), visible(case.note)
    element.set("time", f"{suite.times.get(case.name, 0.0):.3f}")
    if case.judgement in ("noted", "warned"):
        ET.SubElement(element, "system-out").text = text
    elif case.judgement == "skipped":
        ET.SubElement(element, "skipped", message=text)
    elif case.judgement != "passed":
        result = ET.SubElement(element, TAGS[case.judgement], type=case.kind, message=text)
        result.text = _evidence(case.clause) if case.clause else "\n".join(map(visible, case.hint))
    return element


def _evidence(clause: ClauseResult) -> str:
    """Return what a clause promises, why, and what was seen."""
    entry = known(clause.id)
    promise = (entry.sentence, f"why: {entry.why}", *advice(entry)) if entry else ()
    return "\n".join((*promise, evidence_text(clause.evidence)))
