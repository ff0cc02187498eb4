"""Sends a signal into the middle of a turn."""

import os
import subprocess
import threading
from contextlib import suppress
from signal import Signals

from turngate.runtime.tree import ProcessTree

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
