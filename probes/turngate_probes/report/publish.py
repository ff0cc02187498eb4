"""Publishes a report: JSON, files by their suffix, the text, and what GitHub shows.

A command makes a console with `console_for`, probes inside `live(console)` with the listener that it gives, and ends
with `publish`, whose result is the exit code.
"""

import io
import json
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from rich.console import Console

from turngate.contract.load import first_error
from turngate.errors import EnvironmentFailed
from turngate.files import write_atomically
from turngate_probes.report import github
from turngate_probes.report.gate_structs import GateReport
from turngate_probes.report.structs import ProbeReport
from turngate_probes.report.text import print_line, report_lines

STDOUT = "-"
# by module and function, since a run without --report needs none of them
FORMATS = {
    ".json": "turngate_probes.report.publish:json_text",
    ".xml": "turngate_probes.report.junit:junit",
    ".sarif": "turngate_probes.report.sarif:sarif",
    ".md": "turngate_probes.report.markdown:markdown",
    ".html": "turngate_probes.report.page:page",
}


def publish(
    report: ProbeReport | GateReport, console: Console, json_to: str | None, reports: Iterable[Path] = (),
    journal: Path | None = None,
) -> int:  # fmt: skip
    """Write a report as JSON to `json_to` and to each file by its suffix, print it, and return its exit code.

    `json_to` is a path, `-` for standard output, or None for no JSON; `journal` is where the events of a probe lie.
    Raises ValueError if the report breaks its schema or a suffix is unknown, EnvironmentFailed if a file can't be
    written; each file is written whole or not at all.
    """
    paths = list(reports)
    if json_to is not None:
        write_json(report, json_to)
    elif paths:
        checked(report)
    for path in paths:
        _write(path, renderer(path)(report))
    with github.commands_off(console):
        for depth, line in report_lines(report, journal):
            print_line(console, depth, line)
    github.announce(report, console)
    return report.exit_code


def console_for(json_to: str | None) -> Console:
    """Make the console for text: standard output, or standard error when the JSON takes standard output."""
    stream = sys.stderr if json_to == STDOUT else sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        # what an engine wrote may not exist in the encoding of this terminal
        stream.reconfigure(errors="backslashreplace")
    return Console(file=stream, highlight=False, markup=False, emoji=False)


def write_json(report: Any, json_to: str) -> None:
    """Write a report as JSON to a path or to standard output; raises as `publish` does."""
    checked(report)
    if json_to == STDOUT:
        sys.stdout.write(json_text(report))
        sys.stdout.flush()
    else:
        _write(Path(json_to), json_text(report))


def checked(report: Any) -> None:
    """Raise ValueError if a report breaks its schema, which is our mistake."""
    data = json.loads(json_text(report))
    name = data["schema"].removeprefix("turngate.").partition("/")[0]
    if wrong := first_error(name, data):
        raise ValueError(f"the report breaks its schema at {wrong}")


def json_text(report: Any) -> str:
    """Write a report as JSON."""
    return json.dumps(to_builtins(report), indent=2, allow_nan=False) + "\n"


def wrong_suffix(path: Path) -> str | None:
    """Return what is wrong with the name of a report; None if its suffix is of a format."""
    if path.suffix.lower() in FORMATS:
        return None
    return f"{str(path)!r} ends in no known format; there are {', '.join(FORMATS)}"


def renderer(path: Path) -> Callable[[ProbeReport | GateReport], str]:
    """Return the function that renders what a file of this name holds; ValueError if its suffix is unknown."""
    if wrong := wrong_suffix(path):
        raise ValueError(wrong)
    module, _, name = FORMATS[path.suffix.lower()].partition(":")
    render: Callable[[ProbeReport | GateReport], str] = getattr(import_module(module), name)
    return render


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(path.resolve(), text)
    except OSError as error:
        raise EnvironmentFailed(f"the report {path} can't be written: {error.strerror}") from error
