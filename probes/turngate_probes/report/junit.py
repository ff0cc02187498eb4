"""The report as JUnit XML: a suite for each release, a case for each clause."""

from collections.abc import Iterable, Mapping
from xml.etree import ElementTree as ET

from turngate.contract.clauses import Result
from turngate.contract.verdict import ClauseResult, Verdict
from turngate.sanitize import visible
from turngate_probes.report.structs import ProbeReport, ReleaseReport
from turngate_probes.report.wording import evidence_text, known, name_of

LIKE_SKIPPED = (Result.UNSUPPORTED, Result.NOT_RUN)
ANSWERED = "turngate.answered"


def junit(report: ProbeReport) -> str:
    """Render the report. A release that is unanswered gets an error of its own, since skipped clauses look green."""
    return written([_suite(report, release) for release in report.releases], report.seconds)


def written(suites: Iterable[ET.Element], seconds: float) -> str:
    """Write suites as a document, with the sums of what they count."""
    root = ET.Element("testsuites", name="turngate", time=f"{seconds:.3f}")
    root.extend(suites)
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(report: ProbeReport, release: ReleaseReport) -> ET.Element:
    cases = [usual_case(release, clause, strict=report.strict) for clause in release.clauses]
    if release.verdict == Verdict.UNANSWERED:
        cases.append(_unanswered(release))
    return suite_of(report, release, cases, properties_of(report, release), release.seconds)


def suite_of(
    report: ProbeReport,
    release: ReleaseReport,
    cases: Iterable[ET.Element],
    properties: Mapping[str, str],
    seconds: float,
) -> ET.Element:
    """Make the suite of a release, with the count of what its cases hold."""
    suite = ET.Element("testsuite", name=name_of(release), time=f"{seconds:.3f}")
    suite.set("timestamp", visible(report.started_at))
    listed = ET.SubElement(suite, "properties")
    for key, value in properties.items():
        ET.SubElement(listed, "property", name=key, value=visible(value))
    suite.extend(cases)
    suite.set("tests", str(len(suite.findall("testcase"))))
    for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(key, str(len(suite.findall(f"testcase/{tag}"))))
    return suite


def properties_of(report: ProbeReport, release: ReleaseReport) -> dict[str, str]:
    """Return what was asked, and what came of it as a whole."""
    return {
        "turngate": report.turngate,
        "level": report.level,
        "verdict": release.verdict,
        "profile": release.profile.kind,
        "contract_version": release.contract_version,
        "executable": release.executable or "",
        "source": release.source,
    }


def case_of(release: ReleaseReport, name: str) -> ET.Element:
    """Make a case that passes, as long as nothing is put into it."""
    return ET.Element("testcase", classname=name_of(release), name=visible(name))


def usual_case(release: ReleaseReport, clause: ClauseResult, *, strict: bool) -> ET.Element:
    """Make the case of a clause, as a probe tells of it."""
    case = case_of(release, clause.id)
    detail = visible(clause.detail)
    if clause.result == Result.FAIL:
        failure(case, clause.severity, detail).text = text_of(clause)
    elif clause.result in LIKE_SKIPPED:
        ET.SubElement(case, "skipped", message=f"{clause.result.replace('_', ' ')}: {detail}")
    elif clause.stale and strict:
        failure(case, "stale", detail)
    elif clause.stale or clause.result == Result.DEVIATES:
        ET.SubElement(case, "system-out").text = f"{'stale' if clause.stale else 'deviates'}: {detail}"
    return case


def failure(case: ET.Element, kind: str, message: str) -> ET.Element:
    """Have a case fail."""
    return ET.SubElement(case, "failure", type=kind, message=visible(message))


def text_of(clause: ClauseResult) -> str:
    """Return what a clause promises, why, and what was seen."""
    entry = known(clause.id)
    said = f"{entry.sentence}\nwhy: {entry.why}\n" if entry else ""
    return said + evidence_text(clause.evidence)


def _unanswered(release: ReleaseReport) -> ET.Element:
    case = case_of(release, ANSWERED)
    failed = release.failed
    message = failed.what if failed else "a breaking clause could not be run, so nothing is promised"
    ET.SubElement(case, "error", type="unanswered", message=visible(message)).text = visible(
        failed.hint if failed else ""
    )
    return case
