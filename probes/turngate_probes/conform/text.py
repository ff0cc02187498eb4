"""The report of `turngate conform` as text: lines for people, Markdown, and JUnit XML."""

from collections.abc import Iterator
from xml.etree import ElementTree as ET

from rich.text import Text

from turngate.sanitize import bounded, visible
from turngate_probes.conform.catalogue import rules, scenarios
from turngate_probes.conform.report import ConformReport, Result, ScenarioRow
from turngate_probes.report.problems import style_of
from turngate_probes.report.wording import duration

LONGEST = 240
COUNTED = {"failures": Result.FAIL, "errors": Result.UNANSWERED, "skipped": Result.SKIPPED}
MEANINGS = {
    0: "the orchestrator conforms",
    1: "the orchestrator breaks a rule",
    2: "something could not be tested",
    130: "interrupted, so the results are incomplete",
}
_STYLES = {Result.PASS: "green", Result.FAIL: "red", Result.UNANSWERED: "yellow", Result.EXCUSED: "yellow"}


def row_lines(row: ScenarioRow) -> Iterator[tuple[int, Text]]:
    """Return the lines of one result: the scenario, and below it each broken rule."""
    line = Text.assemble(
        (f"{row.result:<10}", _STYLES.get(row.result, "")), f" {row.engine} {row.version}  {row.scenario}",
        f"  {duration(row.seconds)}" if row.result is not Result.SKIPPED else "",
    )  # fmt: skip
    if row.detail:
        line.append(f"  {visible(row.detail)}")
    yield 0, line
    for breach in row.breaches:
        where = f" (call {breach.call})" if breach.call else ""
        yield 1, Text(visible(bounded(f"{breach.rule}{where}: {breach.detail}", LONGEST)))
        yield 2, Text(visible(f"expected: {breach.excused}") if breach.excused else f"why: {rules()[breach.rule].why}")


def summary_lines(report: ConformReport) -> Iterator[tuple[int, Text]]:
    """Return the lines at the end: the verdict, the broken rules with their scenarios, and the exit code."""
    yield 0, Text()
    counts = ", ".join(
        f"{count} {result}" for result in Result if (count := sum(row.result is result for row in report.results))
    )
    yield 0, Text.assemble((report.verdict, style_of(report.verdict)), f": {counts or 'nothing was tested'}")
    for rule, where in _broken(report).items():
        yield 1, Text(f"{rule}: {rules()[rule].sentence}")
        yield 2, Text(f"broken in {', '.join(where)}")
    for entry in report.stale:
        yield 1, Text(visible(f"no longer needed in the baseline: {entry}"))
    yield 0, Text(f"exit code {report.exit_code}: {MEANINGS[report.exit_code]}")
    yield 0, Text(duration(report.seconds))


def markdown(report: ConformReport) -> str:
    """Render a report as Markdown."""
    lines = [f"# {visible(' '.join(report.command))}: {report.verdict}", ""]
    if report.interrupted:
        lines += ["The run was interrupted, so the results are incomplete.", ""]
    lines += ["| engine | scenario | result | broken rules |", "|---|---|---|---|"]
    for row in report.results:
        broken = "; ".join(f"`{breach.rule}`: {_cell(breach.detail)}" for breach in row.breaches) or _cell(row.detail)
        lines.append(f"| {row.engine} {row.version} | {row.scenario} | {row.result} | {broken} |")
    return "\n".join(lines) + "\n"


def junit(report: ConformReport) -> str:
    """Render a report as JUnit XML: a test suite for each engine, a test case for each scenario."""
    root = ET.Element("testsuites", name="turngate conform", time=f"{report.seconds:.3f}")
    for name in dict.fromkeys(f"{row.engine} {row.version}" for row in report.results):
        rows = [row for row in report.results if f"{row.engine} {row.version}" == name]
        suite = ET.SubElement(root, "testsuite", name=name, timestamp=report.started_at)
        suite.extend(_case(name, row) for row in rows)
        for key, result in COUNTED.items():
            suite.set(key, str(sum(row.result is result for row in rows)))
        suite.set("tests", str(len(rows)))
    for key in ("tests", *COUNTED):
        root.set(key, str(sum(int(suite.get(key, "0")) for suite in root)))
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(name: str, row: ScenarioRow) -> ET.Element:
    case = ET.Element("testcase", classname=name, name=row.scenario, time=f"{row.seconds:.3f}")
    told = [f"{breach.rule}: {breach.detail}" for breach in row.breaches]
    if row.result is Result.FAIL:
        failure = ET.SubElement(case, "failure", type=row.breaches[0].rule, message=visible(row.breaches[0].detail))
        what = [scenarios()[row.scenario].sentence] if row.scenario in scenarios() else []
        failure.text = "\n".join(map(visible, [*what, *told]))
    elif row.result is Result.UNANSWERED:
        ET.SubElement(case, "error", type="unanswered", message=visible(row.detail))
    elif row.result is Result.SKIPPED:
        ET.SubElement(case, "skipped", message=visible(row.detail))
    elif told:
        ET.SubElement(case, "system-out").text = "\n".join(map(visible, told))
    return case


def _broken(report: ConformReport) -> dict[str, list[str]]:
    broken: dict[str, list[str]] = {}
    for row in report.results:
        for breach in row.breaches:
            if breach.excused is None and row.scenario not in broken.setdefault(breach.rule, []):
                broken[breach.rule].append(row.scenario)
    return {rule: broken[rule] for rule in rules() if rule in broken}


def _cell(text: str) -> str:
    return visible(text).replace("|", "\\|").replace("\n", " ")
