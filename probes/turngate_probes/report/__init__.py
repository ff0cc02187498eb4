"""Reports of a probe, all rendered from its journal: a table while it runs, a final text, and JSON.

The command makes a console with `console_for`, probes inside `live(console)` with the listener that it gives,
and ends with `publish`, whose result is the exit code.
"""

from pathlib import Path

from rich.console import Console

from turngate_probes.journal import read
from turngate_probes.report.build import build
from turngate_probes.report.live import live
from turngate_probes.report.output import STDOUT, console_for, write_json
from turngate_probes.report.text import print_report

__all__ = ["STDOUT", "console_for", "live", "publish"]


def publish(journal: Path, console: Console, json_to: str | None = None) -> int:
    """Report on what the journal at `journal` holds, closed or torn: JSON to `json_to`, text to `console`.

    `json_to` is a path, `-` for standard output, or None for no JSON. Gives the exit code. Raises
    EnvironmentFailed if the journal can't be read or the file can't be written.
    """
    report = build(read(journal))
    if json_to is not None:
        write_json(report, json_to)
    print_report(console, report, journal)
    return int(report["exit_code"])
