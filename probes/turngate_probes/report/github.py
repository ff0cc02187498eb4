"""What GitHub Actions shows beside the log: annotations, and a summary of the job."""

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from turngate.contract.clauses import Severity
from turngate.errors import EnvironmentFailed
from turngate.sanitize import bounded, visible
from turngate_probes.report.markdown import MOST_BYTES, markdown
from turngate_probes.report.source_locations import place_of
from turngate_probes.report.structs import ProbeReport
from turngate_probes.report.wording import failures, name_of

MOST_OF_A_KIND = 10  # more are not shown
LONGEST = 2000
KINDS = {Severity.BREAKING: "error", Severity.DEGRADED: "warning", Severity.INFORMATIVE: "notice"}
IN_MESSAGE = "%\r\n"
IN_PROPERTY = IN_MESSAGE + ":,"

Told = tuple[str, Mapping[str, str], str]


def runs_here(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether this runs in a workflow of GitHub."""
    return environ.get("GITHUB_ACTIONS") == "true"


@contextmanager
def commands_off(console: Console) -> Iterator[None]:
    """Have GitHub read nothing that is printed while the block runs as a command, for engines print what they like."""
    if not runs_here():
        yield
        return
    token = secrets.token_hex(16)
    _print(console, f"::stop-commands::{token}")
    try:
        yield
    finally:
        _print(console, f"::{token}::")


def announce(report: ProbeReport, console: Console) -> None:
    """Print the annotations of a probe and append its summary; does nothing elsewhere."""
    show(console, lambda: told_of(report), lambda: markdown(report))


def show(console: Console, told: Callable[[], Iterable[Told]], summed_up: Callable[[], str]) -> None:
    """Print what is told as annotations and append the summary; does nothing elsewhere."""
    if not runs_here():
        return
    for line in annotations(told()):
        _print(console, line)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        _append(Path(summary), summed_up())


def annotations(told: Iterable[Told]) -> list[str]:
    """Write a command for all that is told, at most so many of a kind."""
    lines = []
    found = list(told)
    for kind in KINDS.values():
        listed = [_command(*each) for each in found if each[0] == kind]
        if len(listed) > MOST_OF_A_KIND:
            left_out = len(listed) - MOST_OF_A_KIND + 1
            listed[MOST_OF_A_KIND - 1 :] = [_command(kind, {"title": "turngate"}, f"{left_out} more: see the summary")]
        lines += listed
    return lines


def told_of(report: ProbeReport) -> Iterator[Told]:
    """Tell of each release that could not be asked, and of each failure."""
    for release in report.releases:
        if release.failed:
            what = f"could not be asked: {release.failed.what}"
            yield "error", {"title": release.release}, what
    for release, clause in failures(report.releases):
        properties = titled(f"{name_of(release)} {clause.id}", place_of(release, clause.id))
        yield KINDS[clause.severity], properties, clause.detail


def titled(title: str, place: tuple[str, int] | None) -> dict[str, str]:
    """Return the properties of an annotation: its title, and file and line if it has a place."""
    return ({"file": place[0], "line": str(place[1])} if place else {}) | {"title": title}


def _command(kind: str, properties: Mapping[str, str], message: str) -> str:
    named = ",".join(f"{key}={_escaped(value, IN_PROPERTY)}" for key, value in properties.items())
    return f"::{kind} {named}::{_escaped(bounded(message, LONGEST), IN_MESSAGE)}"


def _escaped(text: str, special: Iterable[str]) -> str:
    shown = visible(text, keep="\r\n")
    return "".join(f"%{ord(c):02X}" if c in special else c for c in shown)


def _append(path: Path, text: str) -> None:
    try:
        taken = path.stat().st_size if path.exists() else 0
        if taken + len(text.encode()) > MOST_BYTES:
            text = "\nThe summary of turngate is left out, since there is no room for it.\n"
        with path.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        raise EnvironmentFailed(f"the job's summary can't be written: {error.strerror}") from error


def _print(console: Console, line: str) -> None:
    console.print(Text(line), soft_wrap=True)
