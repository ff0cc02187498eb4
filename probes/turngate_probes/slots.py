"""Bounds how many engines run at once, and lets the more urgent go first."""

import heapq
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Slots:
    """A counting semaphore whose waiters are served by priority (lower first), then in order of arrival."""

    def __init__(self, count: int) -> None:
        """Offer `count` slots."""
        self._free, self._lock = count, threading.Lock()
        self._waiting: list[tuple[int, int, threading.Event]] = []
        self._arrivals = itertools.count()

    @contextmanager
    def held(self, priority: int) -> Iterator[None]:
        """Hold a slot while the block runs, waiting for one first."""
        turn = threading.Event()
        with self._lock:
            heapq.heappush(self._waiting, (priority, next(self._arrivals), turn))
            self._serve()
        turn.wait()
        try:
            yield
        finally:
            with self._lock:
                self._free += 1
                self._serve()

    def _serve(self) -> None:
        while self._free and self._waiting:
            self._free -= 1
            heapq.heappop(self._waiting)[2].set()
