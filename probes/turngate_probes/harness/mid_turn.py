"""Acts during a turn, at the first request of its engine: sends a signal, and starts a deadline."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from signal import Signals
from typing import Self

_STARTED_WITHIN = 5.0  # seconds; an engine's first request comes long after its start was recorded


class MidTurn:
    """Acts at the first request of a turn: signals the engine's process group as a terminal does, and starts a clock.

    `give_up` is called after `patience` seconds, unless the turn is over by then. With `startup`, the seconds that the
    engine may take to its first request, it is also called if that time and then `patience` pass without a request.
    Requests after the context are ignored. Safe for threads.
    """

    def __init__(
        self, number: Signals | None, patience: float | None, give_up: Callable[[], None],
        startup: Callable[[], float] | None = None,
    ) -> None:  # fmt: skip
        """Send signal `number` (None: none), and wait `patience` seconds (None: forever)."""
        self._number, self._pid, self._began = number, 0, 0.0
        self._patience, self._give_up, self._startup = patience, give_up, startup
        self._started, self._lock = threading.Event(), threading.Lock()
        self._requested = self._is_over = False
        self._timer: threading.Timer | None = None

    def started(self, pid: int) -> None:
        """Take the id of the main process, which leads the group."""
        self._pid, self._began = pid, time.monotonic()
        self._started.set()
        self._await_request()

    def requested(self, _request: object = None) -> None:
        """Act, the first time this is called."""
        with self._lock:
            if self._requested:
                return
            self._requested = True
            if self._patience is not None:
                self._start_timer(self._patience, self._give_up)
        if self._number is not None and self._started.wait(_STARTED_WITHIN):
            with suppress(OSError):
                os.killpg(self._pid, self._number)

    def over(self) -> None:
        """Stop the clock."""
        with self._lock:
            self._is_over = True
            if self._timer:
                self._timer.cancel()

    def _await_request(self) -> None:
        """Give up if the time for a first request has passed without one; it may have grown in the meantime."""
        with self._lock:
            if self._requested or self._is_over or self._startup is None or self._patience is None:
                return
            left = self._began + self._startup() + self._patience - time.monotonic()
            if left > 0:
                self._start_timer(left, self._await_request)
                return
        self._give_up()

    def _start_timer(self, seconds: float, then: Callable[[], None]) -> None:
        """Replace the running timer; the lock is held."""
        if self._timer:
            self._timer.cancel()
        if not self._is_over:
            self._timer = threading.Timer(seconds, then)
            self._timer.daemon = True
            self._timer.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._requested = True
        self.over()
