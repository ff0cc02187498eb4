"""Publishes a report: as JSON, as files by their suffix, as text, and on GitHub.

A command probes inside `live(output.progress)`, whose listener follows the journal, and ends with `publish`, which
returns the exit code.
"""

import errno
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

from msgspec import Struct, ValidationError, to_builtins
from rich.console import Console
from rich.text import Text

from turngate import MachineError, TurngateError
from turngate.contract.verdict import Verdict, decode_hook
from turngate.decoding import convert
from turngate.files import real_path, write_atomically
from turngate.sanitize import visible
from turngate_probes.report import FORMATS, SARIF, github
from turngate_probes.report.lines import Detail, print_line, style_of
from turngate_probes.report.release_view import ReleaseView
from turngate_probes.report.source_locations import fallback_of, unplaced
from turngate_probes.report.text import outcome_lines, report_lines
from turngate_probes.report.view import View


class Printer:
    """The output options of a command. With JSON, standard output has only JSON, and text goes to standard error.

    Progress has a separate console, which `--quiet` silences. `written` are the files that hold reports by now.
    """

    def __init__(
        self, *, as_json: bool = False, reports: tuple[Path, ...] = (), detail: Detail = Detail.NORMAL
    ) -> None:
        self.as_json, self.reports, self.detail = as_json, reports, detail
        self.written: list[Path] = []
        stream = sys.stderr if as_json else sys.stdout
        if isinstance(stream, io.TextIOWrapper):
            # this terminal's encoding may lack characters that an engine wrote
            stream.reconfigure(errors="backslashreplace")
        self._own = _Console(file=stream, highlight=False, markup=False, emoji=False)
        self._own.outlives_reader = bool(reports)
        self.console: Console = self._own
        self.progress = Console(quiet=True) if detail is Detail.QUIET else self.console

    def end(self) -> None:
        """Raise BrokenPipeError if the reader of the output left while reports had still to be written."""
        if self._own.reader_gone:
            raise _reader_gone()


class _Console(Console):
    """A console whose reader may leave, as `head` does; with `outlives_reader` it prints nothing from then on."""

    outlives_reader = reader_gone = False

    def on_broken_pipe(self) -> None:
        """Leave the exit code to the command; rich would exit with 1."""
        if not self.outlives_reader:
            raise _reader_gone()
        self.reader_gone = self.quiet = True


def _reader_gone() -> BrokenPipeError:
    return BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def publish(view: View, output: Printer, journal: Path | None = None) -> int:
    """Write a report as `write_reports` does, print its text, and return its exit code.

    `journal` is the path of the probe's events.
    """
    try:
        write_reports(view, output)
    finally:  # a report that can't be written takes no verdict with it
        with github.commands_off(output.console):
            for depth, line in report_lines(view, journal, output.detail):
                print_line(output.console, depth, line)
            for note in _unplaced(view, output.reports):
                print_line(output.console, 0, Text(note))
        github.announce(view, output.console)
    return view.exit_code


def sum_up(views: Sequence[ReleaseView], failed: Mapping[str, TurngateError], exit_code: int, output: Printer) -> None:
    """Print the outcomes of gates that were run one after the other, and the exit code of all.

    `failed` are the releases whose gate, or a report of it, failed.
    """
    if output.detail is Detail.QUIET:
        return
    with github.commands_off(output.console):
        print_line(output.console, 0, Text())
        for view in views:
            for depth, line in outcome_lines(view):
                print_line(output.console, depth, line)
        for release, error in failed.items():
            print_line(output.console, 0, Text(visible(f"{release}: {error.what}"), style_of(Verdict.UNANSWERED)))
        print_line(output.console, 0, Text(f"exit code {exit_code}: that of the worst gate"))


def write_reports(view: View, output: Printer) -> None:
    """Print a report as JSON if requested, and write it to each file by its suffix, completely or not at all.

    Raises ValueError if the report breaks its schema or a suffix is unknown, MachineError if a file can't be
    written.
    """
    _put(view.report, output, lambda path: renderer(path)(view))


def write_json(report: Struct, output: Printer) -> None:
    """Do what `write_reports` does, with a report that has no format but JSON."""
    _put(report, output, lambda _: json_text(report))


def _put(report: Struct, output: Printer, render: Callable[[Path], str]) -> None:
    if output.as_json or output.reports:
        checked(report)
    try:
        for path in output.reports:
            _write(path, render(path))
            output.written.append(path)
    finally:
        if output.as_json:
            print(json_text(report), end="", flush=True)  # noqa: T201 - also where standard output is closed


def checked(report: Struct) -> None:
    """Raise ValueError if a report breaks its schema, which is a bug in turngate.

    Reads it back into its structs, from which the schema is generated: a hundred times as fast as the schema itself.
    """
    try:
        convert(to_builtins(report), type(report), dec_hook=decode_hook)
    except ValidationError as wrong:
        raise ValueError(f"the report breaks its schema: {wrong}") from wrong


def json_text(report: Struct) -> str:
    """Write a report as JSON."""
    return json.dumps(to_builtins(report), indent=2, allow_nan=False) + "\n"


def as_json(view: View) -> str:
    """Render a report as JSON."""
    return json_text(view.report)


def renderer(path: Path) -> Callable[[View], str]:
    """Return the function that renders the format of this file name; ValueError if its suffix is unknown."""
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"{str(path)!r} has an unknown suffix; use one of {', '.join(FORMATS)}")
    module, _, name = FORMATS[path.suffix.lower()].partition(":")
    render: Callable[..., str] = getattr(import_module(module), name)
    return partial(render, fallback=fallback_of(path)) if path.suffix.lower() == SARIF else render


def _unplaced(view: View, paths: Iterable[Path]) -> list[str]:
    """Tell the user where the results of a SARIF report point if they have no file in the user's repository."""
    written = [path for path in paths if path.suffix.lower() == SARIF]
    if not written or not any(remark.rule and not remark.place for remark in view.remarks):
        return []
    return [unplaced(fallback_of(path)) for path in written]


def _write(path: Path, text: str) -> None:
    try:
        write_atomically(real_path(path), text)
    except OSError as error:
        raise MachineError(f"can't write the report {path}: {error.strerror}") from error
