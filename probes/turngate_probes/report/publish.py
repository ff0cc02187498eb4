"""Publishes a report: as JSON, as files by their suffix, as text, and on GitHub.

A command probes inside `live(output.progress)`, whose listener follows the journal, and ends with `publish`, which
returns the exit code.
"""

import json
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import ValidationError, to_builtins
from rich.text import Text

from turngate import EnvironmentFailed
from turngate.contract.verdict import decode_hook
from turngate.decoding import convert
from turngate.files import real_path, write_atomically
from turngate_probes.report import github
from turngate_probes.report.problems import Output
from turngate_probes.report.source_locations import fallback_of, unplaced
from turngate_probes.report.structs import GateReport, ProbeReport
from turngate_probes.report.text import print_line, report_lines
from turngate_probes.report.view import view

SARIF = ".sarif"
# by module and function, because a run without --report needs none of them
FORMATS = {
    ".json": "turngate_probes.report.publish:json_text",
    ".xml": "turngate_probes.report.junit:junit",
    SARIF: "turngate_probes.report.sarif:sarif",
    ".md": "turngate_probes.report.markdown:markdown",
    ".html": "turngate_probes.report.page:page",
}


def publish(report: ProbeReport | GateReport, output: Output, journal: Path | None = None) -> int:
    """Write a report as `write_reports` does, print its text, and return its exit code.

    `journal` is the path of the probe's events.
    """
    write_reports(report, output)
    with github.commands_off(output.console):
        for depth, line in report_lines(report, journal, output.detail):
            print_line(output.console, depth, line)
        for note in _unplaced(report, output.reports):
            print_line(output.console, 0, Text(note))
    github.announce(report, output.console)
    return report.exit_code


def write_reports(report: Any, output: Output) -> None:
    """Print a report as JSON if requested, and write it to each file by its suffix, completely or not at all.

    Raises ValueError if the report breaks its schema or a suffix is unknown, EnvironmentFailed if a file can't be
    written.
    """
    if output.as_json or output.reports:
        checked(report)
    if output.as_json:
        print(json_text(report), end="", flush=True)  # noqa: T201 - also where standard output is closed
    for path in output.reports:
        _write(path, renderer(path)(report))


def checked(report: Any) -> None:
    """Raise ValueError if a report breaks its schema, which is a bug in turngate.

    Reads it back into its structs, from which the schema is generated: a hundred times as fast as the schema itself.
    """
    try:
        convert(to_builtins(report), type(report), dec_hook=decode_hook)
    except ValidationError as wrong:
        raise ValueError(f"the report breaks its schema: {wrong}") from wrong


def json_text(report: Any) -> str:
    """Write a report as JSON."""
    return json.dumps(to_builtins(report), indent=2, allow_nan=False) + "\n"


def renderer(path: Path) -> Callable[[ProbeReport | GateReport], str]:
    """Return the function that renders the format of this file name; ValueError if its suffix is unknown."""
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"{str(path)!r} has an unknown suffix; use one of {', '.join(FORMATS)}")
    module, _, name = FORMATS[path.suffix.lower()].partition(":")
    render: Callable[..., str] = getattr(import_module(module), name)
    return partial(render, fallback=fallback_of(path)) if path.suffix.lower() == SARIF else render


def _unplaced(report: ProbeReport | GateReport, paths: Iterable[Path]) -> list[str]:
    """Tell the user where the results of a SARIF report point if they have no file in the user's repository."""
    written = [path for path in paths if path.suffix.lower() == SARIF]
    if not written or not any(remark.rule and not remark.place for remark in view(report).remarks):
        return []
    return [unplaced(fallback_of(path)) for path in written]


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(real_path(path), text)
    except OSError as error:
        raise EnvironmentFailed(f"can't write the report {path}: {error.strerror}") from error
