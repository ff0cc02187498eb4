"""Reports as JUnit XML: a test suite for each release, a test case for each clause."""

from xml.etree import ElementTree as ET

from turngate.contract.verdict import ClauseResult
from turngate.sanitize import visible
from turngate_probes.clauses import CHECKS
from turngate_probes.report.problems import evidence_text
from turngate_probes.report.structs import GateReport, ProbeReport, ReleaseReport
from turngate_probes.report.view import JudgedCase, View, known, name_of, profile_of, view

COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}
TAGS = {"failed": "failure", "open": "error"}


def junit(report: ProbeReport | GateReport) -> str:
    """Render a report; for a gate, only the newer release."""
    shown = view(report)
    root = ET.Element("testsuites", name="turngate", time=f"{report.seconds:.3f}")
    root.extend(_suite(shown, release) for release in ([shown.gate.judged] if shown.gate else shown.probe.releases))
    for key in ("tests", *COUNTED):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(shown: View, release: ReleaseReport) -> ET.Element:
    probe, gate = shown.probe, shown.gate
    suite = ET.Element("testsuite", name=name_of(release), time=f"{gate.seconds if gate else release.seconds:.3f}")
    suite.set("timestamp", visible(probe.started_at))
    listed = ET.SubElement(suite, "properties")
    properties = {
        "turngate": probe.turngate,
        "level": probe.level,
        "verdict": release.verdict or "",
        "profile": profile_of(release),
        "contract_version": release.contract_version,
        "executable": release.executable or "",
        "source": release.source,
    }
    if gate:
        properties |= {"upgrade from": gate.old.release, "outcome": gate.outcome, "headline": shown.headline}
    for key, value in properties.items():
        ET.SubElement(listed, "property", name=key, value=visible(value))
    suite.extend(_case(release, case) for case in shown.cases(release))
    suite.set("tests", str(len(suite.findall("testcase"))))
    for key, tag in COUNTED.items():
        suite.set(key, str(len(suite.findall(f"testcase/{tag}"))))
    return suite


def _case(release: ReleaseReport, case: JudgedCase) -> ET.Element:
    element, text = ET.Element("testcase", classname=name_of(release), name=visible(case.name)), visible(case.note)
    element.set("time", f"{_seconds(release, case):.3f}")
    if case.judgement in ("noted", "warned"):
        ET.SubElement(element, "system-out").text = text
    elif case.judgement == "skipped":
        ET.SubElement(element, "skipped", message=text)
    elif case.judgement != "passed":
        result = ET.SubElement(element, TAGS[case.judgement], type=case.kind, message=text)
        result.text = _evidence(case.clause) if case.clause else visible(case.hint)
    return element


def _seconds(release: ReleaseReport, case: JudgedCase) -> float:
    """Return the duration of the turns in a clause's evidence or, without evidence, of those of its cases."""
    clause = next((clause for clause in release.clauses if clause.id == case.name), None)
    shown = {item if isinstance(item, str) else getattr(item, "turn", "") for item in clause.evidence} if clause else ()
    named = release.durations.keys() & shown
    if not named and case.name in CHECKS:
        named = {turn for turn in release.durations if turn.partition("/")[0] in CHECKS[case.name].cases}
    return sum(release.durations[turn] for turn in named)


def _evidence(clause: ClauseResult) -> str:
    """Return what a clause promises, why, and what was seen."""
    entry = known(clause.id)
    promise = f"{entry.sentence}\nwhy: {entry.why}\n" if entry else ""
    return promise + evidence_text(clause.evidence)
