"""Acts during a turn, at the first request of its engine: sends a signal, and starts a deadline."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from signal import Signals
from typing import Self

_STARTED_WITHIN = 5.0  # seconds; an engine's first request comes long after its start was recorded


class MidTurn:
    """Acts at the first request of a turn: signals the engine's process group as a terminal does, and starts a clock.

    `give_up` is called after `patience` seconds, unless the turn is over by then. Requests after the context are
    ignored. Safe for threads.
    """

    def __init__(self, number: Signals | None, patience: float | None, give_up: Callable[[], None]) -> None:
        """Send signal `number` (None: none), and wait `patience` seconds (None: forever)."""
        self._number, self._pid = number, 0
        self._started, self._requested = threading.Event(), threading.Lock()
        self._timer = None if patience is None else threading.Timer(patience, give_up)
        if self._timer:
            self._timer.daemon = True

    def started(self, pid: int) -> None:
        """Take the id of the main process, which leads the group."""
        self._pid = pid
        self._started.set()

    def requested(self, _request: object = None) -> None:
        """Act, the first time this is called."""
        if not self._requested.acquire(blocking=False):
            return
        if self._timer:
            self._timer.start()
        if self._number is not None and self._started.wait(_STARTED_WITHIN):
            with suppress(OSError):
                os.killpg(self._pid, self._number)

    def over(self) -> None:
        """Stop the clock."""
        if self._timer:
            self._timer.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._requested.acquire(blocking=False)
        self.over()
