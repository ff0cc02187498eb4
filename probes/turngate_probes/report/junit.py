"""Reports as JUnit XML: a suite for each release, a case for each clause."""

from collections.abc import Iterable, Iterator, Mapping
from xml.etree import ElementTree as ET

from turngate.contract.clauses import Result
from turngate.contract.verdict import ClauseResult, Verdict
from turngate.sanitize import visible
from turngate_probes.report.evidence import evidence_text
from turngate_probes.report.gate_structs import GateReason, GateReport
from turngate_probes.report.structs import ProbeReport, ReleaseReport
from turngate_probes.report.wording import known, name_of

LIKE_SKIPPED = (Result.UNSUPPORTED, Result.NOT_RUN)
ANSWERED = "turngate.answered"
OPEN = ("unanswered", "interrupted")


def junit(report: ProbeReport | GateReport) -> str:
    """Render a report, that of a gate with the newer release alone."""
    root = ET.Element("testsuites", name="turngate", time=f"{report.seconds:.3f}")
    if isinstance(report, GateReport):
        more = {"in place of": report.old.release, "outcome": report.outcome}
        root.append(_suite(report.probe, report.judged, _cases_of_gate(report), report.seconds, more))
    else:
        root.extend(
            _suite(report, release, _cases(report, release), release.seconds, {}) for release in report.releases
        )
    for key in ("tests", "failures", "errors", "skipped"):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _suite(
    report: ProbeReport, release: ReleaseReport, cases: Iterable[ET.Element], seconds: float, more: Mapping[str, str]
) -> ET.Element:
    suite = ET.Element("testsuite", name=name_of(release), time=f"{seconds:.3f}")
    suite.set("timestamp", visible(report.started_at))
    listed = ET.SubElement(suite, "properties")
    properties = {
        "turngate": report.turngate, "level": report.level, "verdict": release.verdict,
        "profile": release.profile.kind, "contract_version": release.contract_version,
        "executable": release.executable or "", "source": release.source, **more,
    }  # fmt: skip
    for key, value in properties.items():
        ET.SubElement(listed, "property", name=key, value=visible(value))
    suite.extend(cases)
    suite.set("tests", str(len(suite.findall("testcase"))))
    for key, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(key, str(len(suite.findall(f"testcase/{tag}"))))
    return suite


def _cases(report: ProbeReport, release: ReleaseReport) -> Iterator[ET.Element]:
    """Make a case of each clause; an unanswered release gets an error, since skipped clauses look green."""
    yield from (_usual(release, clause, strict=report.strict) for clause in release.clauses)
    if release.verdict is Verdict.UNANSWERED:
        failed, case = release.failed, _case(release, ANSWERED)
        message = failed.what if failed else "a breaking clause could not be run, so nothing is promised"
        error = ET.SubElement(case, "error", type="unanswered", message=visible(message))
        error.text = visible(failed.hint) if failed else ""
        yield case


def _cases_of_gate(report: GateReport) -> Iterator[ET.Element]:
    """Make a case of each clause and each other reason; what the baseline excuses is skipped, with the reason."""
    new = report.judged
    reasons = {reason.about: reason for reason in report.ruling.reasons}
    excused = {excuse.reason.about: excuse.text for excuse in report.ruling.excused}
    for clause in new.clauses:
        # by either name, as a clause that failed or that was not answered
        reason = reasons.pop(clause.id, None) or reasons.pop(f"{new.release}: {clause.id}", None)
        excuse = excused.pop(clause.id, None)
        if reason:
            yield _red(_case(new, clause.id), reason, _text(clause))
        elif excuse:
            yield _with(_case(new, clause.id), "skipped", message=excuse)
        elif clause.result is Result.FAIL:
            text = f"fails, which is {clause.severity} alone: {clause.detail}"
            yield _with(_case(new, clause.id), "system-out", visible(text))
        else:
            yield _usual(new, clause, strict=False)
    yield from (_red(_case(new, name), reason) for name, reason in reasons.items())
    yield from (_with(_case(new, name), "skipped", message=why) for name, why in excused.items())


def _usual(release: ReleaseReport, clause: ClauseResult, *, strict: bool) -> ET.Element:
    """Make the case of a clause, as a probe tells of it."""
    case, detail = _case(release, clause.id), visible(clause.detail)
    if clause.result is Result.FAIL:
        return _with(case, "failure", _text(clause), type=clause.severity, message=detail)
    if clause.result in LIKE_SKIPPED:
        return _with(case, "skipped", message=f"{clause.result.replace('_', ' ')}: {detail}")
    if clause.stale and strict:
        return _with(case, "failure", type="stale", message=detail)
    if clause.stale or clause.result is Result.DEVIATES:
        return _with(case, "system-out", f"{'stale' if clause.stale else 'deviates'}: {detail}")
    return case


def _red(case: ET.Element, reason: GateReason, text: str = "") -> ET.Element:
    if reason.kind in OPEN:
        return _with(case, "error", text, type=reason.kind, message=reason.text)
    kind = "baseline" if reason.kind == "baseline" else "breaking"
    return _with(case, "failure", text, type=kind, message=reason.text)


def _case(release: ReleaseReport, name: str) -> ET.Element:
    """Make a case that passes, as long as nothing is put into it."""
    return ET.Element("testcase", classname=name_of(release), name=visible(name))


def _with(case: ET.Element, tag: str, text: str | None = None, **attributes: str) -> ET.Element:
    """Put a result into a case."""
    result = ET.SubElement(case, tag, {key: visible(value) for key, value in attributes.items()})
    result.text = text
    return case


def _text(clause: ClauseResult) -> str:
    """Return what a clause promises, why, and what was seen."""
    entry = known(clause.id)
    promise = f"{entry.sentence}\nwhy: {entry.why}\n" if entry else ""
    return promise + evidence_text(clause.evidence)
