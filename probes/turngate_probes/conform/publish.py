"""Prints the results of `turngate conform` as they come, and writes its report: text, Markdown, and JUnit XML."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from threading import Lock
from xml.etree import ElementTree as ET

from rich.text import Text

from turngate import EnvironmentFailed
from turngate.files import real_path, write_atomically
from turngate.sanitize import bounded, visible
from turngate_probes.conform.catalogue import rules, scenarios
from turngate_probes.conform.report import ConformReport, Result, ScenarioRow
from turngate_probes.report.problems import Detail, Output, style_of
from turngate_probes.report.publish import checked, json_text
from turngate_probes.report.text import print_line
from turngate_probes.report.view import duration

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
        (f"{row.result:<10}", _STYLES.get(row.result, "")),
        f" {row.engine} {row.version}  {row.scenario}",
        f"  {duration(row.seconds)}" if row.result is not Result.SKIPPED else "",
    )
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


_FORMATS: dict[str, Callable[[ConformReport], str]] = {".json": json_text, ".xml": junit, ".md": markdown}
_QUIET = (Result.PASS, Result.SKIPPED)


class Told:
    """Prints each result, with its number among all of them."""

    def __init__(self, output: Output, total: int) -> None:
        self._output, self._total, self._done, self._lock = output, total, 0, Lock()

    def begin(self, number: int, engines: Iterable[str], jobs: int) -> None:
        """Print what is about to run: so many scenarios with each engine."""
        if self._output.detail is not Detail.QUIET:
            order = f", {jobs} at a time, the longest first" if jobs > 1 else ""
            line = f"{number} scenario{'s' * (number != 1)} with {', '.join(engines)}{order}"
            print_line(self._output.console, 0, Text(line, "dim"))

    def __call__(self, row: ScenarioRow) -> None:
        """Print a result; several threads may call this."""
        with self._lock:
            self._done += 1
            if self._output.detail is Detail.QUIET and row.result in _QUIET:
                return
            for number, (depth, line) in enumerate(row_lines(row)):
                if not number:
                    line.append(f"  [{self._done}/{self._total}]", "dim")
                print_line(self._output.console, depth, line)


def publish(report: ConformReport, output: Output) -> int:
    """Print the verdict, write the report as requested, and return its exit code.

    EnvironmentFailed if a file can't be written.
    """
    checked(report)
    for depth, line in summary_lines(report):
        print_line(output.console, depth, line)
    if output.as_json:
        print(json_text(report), end="", flush=True)  # noqa: T201 - also where standard output is closed
    for path in output.reports:
        _write(path, _FORMATS[path.suffix.lower()](report))
    return report.exit_code


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(real_path(path), text)
    except OSError as error:
        raise EnvironmentFailed(f"can't write the report {path}: {error.strerror}") from error
