"""Ends everything that a probe runs, at once, from a signal or at a failure."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from turngate.clauses import Reason
from turngate.runtime import Stop
from turngate_probes.obstacle import Obstacle, ObstacleError, obstacle_of


class CaseStoppedError(ObstacleError):
    """A case can't go on."""


class InterruptedCaseError(CaseStoppedError):
    """A case can't go on, since the probe was interrupted."""

    def __init__(self) -> None:
        super().__init__("interrupted", Reason.INTERRUPTED)


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

    def why(self, stopped: Exception) -> Obstacle:
        """Say why a case ended early: an interrupt makes everything fail, so it is the reason whatever failed first."""
        return InterruptedCaseError().obstacle if self.is_set() else obstacle_of(stopped)

    def wait(self, seconds: float) -> None:
        """Wait out a time; CaseStoppedError if the interrupt comes first."""
        if self._event.wait(max(0.0, seconds)):
            raise InterruptedCaseError

    @contextmanager
    def covering(self) -> Iterator[Stop]:
        """Give a stop for one process, set by the interrupt too; CaseStoppedError if that came already."""
        stop = Stop()
        with self._lock:
            if self._event.is_set():
                raise InterruptedCaseError
            self._stops.add(stop)
        try:
            yield stop
        finally:
            with self._lock:
                self._stops.discard(stop)
