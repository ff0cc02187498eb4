"""What GitHub Actions shows in addition to the log: annotations, and a job summary."""

import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.text import Text

from turngate import MachineError
from turngate.sanitize import bounded, visible
from turngate_probes.report.markdown import MOST_BYTES, markdown
from turngate_probes.report.release_view import ReleaseView
from turngate_probes.report.source_locations import Place, place_of
from turngate_probes.report.view import View

MOST_OF_A_KIND = 10  # more are not shown
LONGEST = 2000
KINDS = {"error": "error", "warning": "warning", "note": "notice"}
IN_MESSAGE = "%\r\n"
IN_PROPERTY = IN_MESSAGE + ":,"


def runs_here(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this runs in a GitHub workflow."""
    return environ.get("GITHUB_ACTIONS") == "true"


@contextmanager
def commands_off(console: Console) -> Iterator[None]:
    """Keep GitHub from reading output as commands while the block runs, because engines may print anything."""
    if not runs_here():
        yield
        return
    token = secrets.token_hex(16)
    _print(console, f"::stop-commands::{token}")
    try:
        yield
    finally:
        _print(console, f"::{token}::")


def announce(view: View, console: Console) -> None:
    """Print the annotations of a report and append its summary; does nothing outside GitHub."""
    if not runs_here():
        return
    for line in annotations(view):
        _print(console, line)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        _append(Path(summary), markdown(view))


def annotations(view: View) -> list[str]:
    """Write a command for each remark and each action, at most ten of a kind."""
    releases = {each.release: each for each in view.probe.releases} if isinstance(view, ReleaseView) else {}
    commands: dict[str, list[str]] = {kind: [] for kind in KINDS.values()}
    for remark in view.remarks:
        kind = KINDS[remark.level]
        commands[kind].append(_annotation(kind, remark.place, remark.title, remark.text))
    for action in view.actions:
        place = next((place_of(releases[name]) for name in action.releases if name in releases), None)
        title, text = action.title, f"{action.text} ({', '.join(action.releases)})"
        commands["notice"].append(_annotation("notice", place, title, text))
    return [line for kind, lines in commands.items() for line in _shown(kind, lines)]


def _shown(kind: str, lines: list[str]) -> list[str]:
    left_out = len(lines) - MOST_OF_A_KIND + 1
    if left_out <= 1:
        return lines
    return [*lines[: MOST_OF_A_KIND - 1], _command(kind, {"title": "turngate"}, f"{left_out} more: see the summary")]


def _annotation(kind: str, place: Place | None, title: str, text: str) -> str:
    at = {"file": place[0], "line": str(place[1])} if place else {}
    return _command(kind, at | {"title": title}, text)


def _command(kind: str, properties: Mapping[str, str], message: str) -> str:
    named = ",".join(f"{key}={_escaped(value, IN_PROPERTY)}" for key, value in properties.items())
    return f"::{kind} {named}::{_escaped(bounded(message, LONGEST), IN_MESSAGE)}"


def _escaped(text: str, special: Iterable[str]) -> str:
    escaped = visible(text, keep="\r\n")
    return "".join(f"%{ord(c):02X}" if c in special else c for c in escaped)


def _append(path: Path, text: str) -> None:
    try:
        taken = path.stat().st_size if path.exists() else 0
        if taken + len(text.encode()) > MOST_BYTES:
            text = "\nturngate's summary is left out, because there is no room for it.\n"
        with path.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    except OSError as error:
        raise MachineError(f"can't write the job summary: {error.strerror}") from error


def _print(console: Console, line: str) -> None:
    console.print(Text(line), soft_wrap=True)
