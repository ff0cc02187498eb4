"""Prints results as they come, and writes the report."""

from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock

from rich.text import Text

from turngate import EnvironmentFailed
from turngate.files import real_path, write_atomically
from turngate_probes.conform.report import ConformReport, Result, ScenarioRow
from turngate_probes.conform.text import junit, markdown, row_lines, summary_lines
from turngate_probes.report.output import Detail, Output
from turngate_probes.report.publish import checked, json_text
from turngate_probes.report.text import print_line

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
