"""Ends everything that a probe runs, at once, from a signal or at a failure."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from turngate.runtime import Stop

_INTERRUPTED = "interrupted"


class CaseStoppedError(Exception):
    """A case can't go on; the text says why."""


class Interrupt:
    """Ends whatever runs, and keeps anything more from starting."""

    def __init__(self) -> None:
        self._event, self._lock, self._stops = threading.Event(), threading.Lock(), set[Stop]()

    def set(self) -> None:
        """End every process tree under way."""
        self._event.set()
        with self._lock:
            for stop in self._stops:
                stop.set()

    def is_set(self) -> bool:
        """Say whether the probe was interrupted."""
        return self._event.is_set()

    def why(self, stopped: Exception) -> str:
        """Say why a case ended early: an interrupt makes everything fail, so it is the reason whatever failed first."""
        return _INTERRUPTED if self.is_set() else str(stopped)

    def wait(self, seconds: float) -> None:
        """Wait out a time; CaseStoppedError if the interrupt comes first."""
        if self._event.wait(max(0.0, seconds)):
            raise CaseStoppedError(_INTERRUPTED)

    @contextmanager
    def covering(self) -> Iterator[Stop]:
        """Give a stop for one process, set by the interrupt too; CaseStoppedError if that came already."""
        stop = Stop()
        with self._lock:
            if self._event.is_set():
                raise CaseStoppedError(_INTERRUPTED)
            self._stops.add(stop)
        try:
            yield stop
        finally:
            with self._lock:
                self._stops.discard(stop)
