"""What happens in the middle of a turn: signals, and deadlines counted from a first sign of life."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from signal import Signals
from typing import Self

_STARTED_WITHIN = 5.0  # seconds; an engine's first request comes long after its start was noted


class MidTurnSignal:
    """Sends `number` (None: nothing) to the process group of the engine whose start `note` hears of, once."""

    def __init__(self, number: Signals | None) -> None:
        self._number, self._pid = number, 0
        self._started, self._sent = threading.Event(), threading.Lock()

    def note(self, pid: int) -> None:
        """Take the id of the main process, which leads the group."""
        self._pid = pid
        self._started.set()

    def send(self) -> None:
        """Signal the group as a terminal does, the first time this is called."""
        if self._number is None or not self._sent.acquire(blocking=False):
            return
        if self._started.wait(_STARTED_WITHIN):
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
        """Stop the clock."""
        self._timer.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
