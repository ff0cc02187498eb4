"""Reports of a probe, all rendered from its journal: a table while it runs, a final text, JSON, and files.

The command makes a console with `console_for`, probes inside `live(console)` with the listener that it gives,
and ends with `publish`, whose result is the exit code.
"""

from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from turngate_probes.journal.journal import read
from turngate_probes.report import github
from turngate_probes.report.build import build
from turngate_probes.report.files import write_reports
from turngate_probes.report.output import STDOUT, console_for, write_json
from turngate_probes.report.progress_table import live
from turngate_probes.report.structs import ProbeReport
from turngate_probes.report.text import print_report

__all__ = ["STDOUT", "console_for", "live", "publish", "publish_report"]


def publish(journal: Path, console: Console, json_to: str | None = None, reports: Iterable[Path] = ()) -> int:
    """Report on what the journal at `journal` holds, closed or torn: JSON to `json_to`, text to `console`.

    `json_to` is a path, `-` for standard output, or None for no JSON; `reports` are files, each in the format of its
    suffix. Gives the exit code. Raises EnvironmentFailed if the journal can't be read or a file can't be written.
    """
    return publish_report(build(read(journal)), console, journal, json_to, reports)


def publish_report(
    report: ProbeReport, console: Console, journal: Path, json_to: str | None = None, reports: Iterable[Path] = ()
) -> int:
    """Publish a report that is built already; `journal` is where its events lie. Otherwise as `publish`."""
    if json_to is not None:
        write_json(report, json_to)
    write_reports(report, reports)
    with github.commands_off(console):
        print_report(console, report, journal)
    github.announce(report, console)
    return report.exit_code
