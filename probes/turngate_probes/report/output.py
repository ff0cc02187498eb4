"""Where a command prints, and how much of it."""

import errno
import io
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Never

from rich.console import Console


class Detail(StrEnum):
    """How much text is printed."""

    QUIET = "quiet"
    NORMAL = "normal"
    VERBOSE = "verbose"


class Output:
    """The output options of a command. With JSON, standard output has only JSON, and text goes to standard error.

    Progress has a separate console, which `--quiet` silences.
    """

    def __init__(
        self, *, as_json: bool = False, reports: tuple[Path, ...] = (), detail: Detail = Detail.NORMAL
    ) -> None:
        self.as_json, self.reports, self.detail = as_json, reports, detail
        stream = sys.stderr if as_json else sys.stdout
        if isinstance(stream, io.TextIOWrapper):
            # this terminal's encoding may lack characters that an engine wrote
            stream.reconfigure(errors="backslashreplace")
        self.console: Console = _Console(file=stream, highlight=False, markup=False, emoji=False)
        self.progress = Console(quiet=True) if detail is Detail.QUIET else self.console


class _Console(Console):
    def on_broken_pipe(self) -> Never:
        """Leave the exit code to the command; rich would exit with 1."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
