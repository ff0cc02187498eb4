"""Measures how long the turns of a release take to their first request, to bound starts and exits on a slow machine."""

import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

FACTOR = 2.0  # turns that start together may differ by it


class Startups:
    """The starts of a release's turns. Safe for threads."""

    def __init__(self) -> None:
        self._lock, self._starting, self._slowest = threading.Lock(), dict[Hashable, float](), 0.0

    def begin(self, turn: Hashable) -> None:
        """Take the start of a turn's process."""
        with self._lock:
            self._starting[turn] = time.monotonic()

    def called(self, turn: Hashable) -> None:
        """Take a request of a turn; only the first one counts."""
        with self._lock:
            if turn in self._starting:
                self._slowest = max(self._slowest, time.monotonic() - self._starting.pop(turn))

    @contextmanager
    def observing(self, turn: Hashable) -> Iterator[None]:
        """Forget a turn that has made no request when the block ends."""
        try:
            yield
        finally:
            with self._lock:
                self._starting.pop(turn, None)

    def slowest(self) -> float:
        """Return the seconds of the slowest start so far: 0 until a turn has made a request.

        It grows while other turns are still starting, so that it follows the load of the machine.
        """
        with self._lock:
            now = time.monotonic()
            starts = [self._slowest, *(now - began for began in self._starting.values())]
            return max(starts) if self._slowest else 0.0

    def allowance(self, most: float) -> float:
        """Return the seconds that a turn may take to its first request: twice the slowest start so far.

        It is `most` until a turn has made a request, and never longer.
        """
        return min(most, FACTOR * self.slowest() or most)
