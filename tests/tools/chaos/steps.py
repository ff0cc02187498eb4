"""Finds the persistence and process steps of a server from the inside, and interrupts it at one of them.

A step is named after what it does and the three innermost functions of turngate that led to it, so no list of steps
is kept anywhere. Each step is noticed before it happens; a commit also after it.
"""

import os
import re
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from tests.tools.chaos.plan import StepTarget

DEPTH = 3
_PROCESS = {"subprocess.Popen": "start a process", "os.kill": "signal a process", "os.killpg": "signal a group"}
_FILES = {
    "os.rename": "rename",
    "os.mkdir": "make a folder",
    "os.remove": "remove",
    "os.rmdir": "remove a folder",
    "os.chmod": "chmod",
    "os.truncate": "truncate",
    "fcntl.flock": "lock",
}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_STATEMENT = re.compile(
    r"\s*((?:INSERT INTO|UPDATE|DELETE FROM|PRAGMA|BEGIN IMMEDIATE) ?\w*|COMMIT|ROLLBACK|BEGIN)", re.IGNORECASE
)
_PACKAGES = ("turngate", "turngate_reference")


class Steps:
    """Counts the steps of this process, and writes the name of each new step to a descriptor, one per line.

    At its target step, it sends the signal to this process, and writes a line that begins with `!`.
    """

    def __init__(self, report: int, target: StepTarget | None, number: signal.Signals | None) -> None:
        self._report, self._target, self._number = report, target, number
        self._counts: Counter[str] = Counter()
        self._done = False

    def install(self) -> None:
        """Watch this process from now on, for as long as it lives."""
        sys.addaudithook(self._audit)
        connect, fsync, wait4 = sqlite3.connect, os.fsync, os.wait4
        sqlite3.connect = lambda *args, **kwargs: connect(*args, factory=self._connection(), **kwargs)  # type: ignore[assignment]
        os.fsync = self._before("fsync", fsync)
        os.wait4 = self._before("reap a process", wait4)

    def take(self, what: str) -> None:
        """Record a step that is about to happen; interrupt the process if it is the target."""
        if self._done or not (place := _place()):
            return
        step = f"{what} in {place}"
        self._counts[step] += 1
        if self._counts[step] == 1:
            os.write(self._report, f"{step}\n".encode())
        if self._target == StepTarget(step, self._counts[step]) and self._number:
            self._done = True
            os.write(self._report, b"!\n")
            os.kill(os.getpid(), self._number)

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "open":
            if isinstance(args[2], int) and args[2] & _WRITES:
                self.take("open to write")
        elif what := _PROCESS.get(event) or _FILES.get(event):
            self.take(what)

    def _before(self, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            self.take(what)
            return function(*args)

        return call

    def _connection(self) -> type[sqlite3.Connection]:
        steps = self

        class Traced(sqlite3.Connection):
            """A connection that reports writing statements as steps."""

            def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
                statement = steps.statement(sql)
                cursor = super().execute(sql, *values)
                if statement == "COMMIT":
                    steps.take("after COMMIT")
                return cursor

            def executemany(self, sql: str, *values: Any) -> sqlite3.Cursor:
                steps.statement(sql)
                return super().executemany(sql, *values)

            def executescript(self, sql: str) -> sqlite3.Cursor:
                steps.statement(sql)
                return super().executescript(sql)

        return Traced

    def statement(self, sql: str) -> str:
        """Record a statement that writes; return its name, empty if it only reads."""
        if (matched := _STATEMENT.match(sql)) is None:
            return ""
        self.take(matched[1])
        return matched[1]


def _place() -> str:
    """Return the innermost running functions of turngate; empty if there are none."""
    names: list[str] = []
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and len(names) < DEPTH:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in _PACKAGES:
            names.append(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}")
        frame = frame.f_back
    return " < ".join(names)
