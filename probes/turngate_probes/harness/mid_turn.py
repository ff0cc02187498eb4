"""What happens in the middle of a turn: signals, and deadlines counted from a first sign of life."""

import os
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from signal import Signals
from typing import Self

from turngate.process.tree import ProcessTree

_ADOPTED_WITHIN = 5.0  # seconds; an engine's first request comes long after its start was noted


class MidTurnSignal:
    """Sends `number` (None: nothing) to the process group of the engine that is run with `new_tree`, once."""

    def __init__(self, number: Signals | None) -> None:
        self._number, self._pid = number, 0
        self._adopted, self._sent = threading.Event(), threading.Lock()

    def new_tree(self, tag: str) -> ProcessTree:
        """Make the tree of a run, whose main process leads the group that is signalled."""
        outer = self

        class Tree(ProcessTree):
            def adopt(self, process: subprocess.Popen[bytes]) -> None:
                super().adopt(process)
                outer._pid = process.pid
                outer._adopted.set()

        return Tree(tag)

    def send(self) -> None:
        """Signal the group as a terminal does, the first time this is called."""
        if self._number is None or not self._sent.acquire(blocking=False):
            return
        if self._adopted.wait(_ADOPTED_WITHIN):
            with suppress(OSError):
                os.killpg(self._pid, self._number)


class Deadline:
    """Calls `give_up` so many seconds after the first `begin`, unless the context ends first. Safe for threads."""

    def __init__(self, seconds: float, give_up: Callable[[], None]) -> None:
        self._timer = threading.Timer(seconds, give_up)
        self._timer.daemon = True
        self._begun = threading.Lock()

    def begin(self) -> None:
        """Start the clock, the first time it is called."""
        if self._begun.acquire(blocking=False):
            self._timer.start()

    def end(self) -> None:
        """Give up no more."""
        self._timer.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
