"""A deadline that is counted from a first sign of life rather than from the start."""

import threading
from collections.abc import Callable
from typing import Self


class Patience:
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
