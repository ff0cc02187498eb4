"""Publishes the report of a gate: text, files by their suffix, and what GitHub shows."""

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

from rich.console import Console

from turngate.errors import EnvironmentFailed
from turngate.files import write_atomically
from turngate_probes.gate.github import markdown, told_of
from turngate_probes.gate.presentation import GateReport
from turngate_probes.gate.text import print_gate
from turngate_probes.report import github
from turngate_probes.report.files import wrong_suffix
from turngate_probes.report.output import checked, write_json

SCHEMA = "gate-report"
# by module and function, since a run without --report needs none of them
FORMATS = {
    ".json": "turngate_probes.report.output:json_text",
    ".xml": "turngate_probes.gate.ci:junit",
    ".sarif": "turngate_probes.gate.ci:sarif",
    ".md": "turngate_probes.gate.github:markdown",
    ".html": "turngate_probes.gate.page:page",
}


def publish(report: GateReport, console: Console, json_to: str | None, reports: Iterable[Path]) -> int:
    """Write the report wherever it was asked for, and print it; gives the exit code.

    Raises ValueError if it breaks its schema, EnvironmentFailed if a file can't be written.
    """
    checked(report, SCHEMA)
    checked(report["probe"])
    if json_to is not None:
        write_json(report, json_to, SCHEMA)
    for path in reports:
        text = _renderer(path)(report)
        try:
            write_atomically(path.resolve(), text)
        except OSError as error:
            raise EnvironmentFailed(f"the report {path} can't be written: {error.strerror}") from error
    with github.commands_off(console):
        print_gate(console, report)
    github.show(console, lambda: told_of(report), lambda: markdown(report))
    return int(report["exit_code"])


def _renderer(path: Path) -> Callable[[GateReport], str]:
    wrong = wrong_suffix(path)
    if wrong:
        raise ValueError(wrong)
    module, _, function = FORMATS[path.suffix.lower()].partition(":")
    found: Callable[[GateReport], str] = getattr(import_module(module), function)
    return found
