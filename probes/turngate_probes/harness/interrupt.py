"""Ends everything that a probe runs, and says why an observation is missing."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from msgspec import Struct

from turngate import ContractError, MachineError, RefusedError, Stop, UsageError
from turngate.contract.clauses import Reason
from turngate.process.signals import handling_signals

SIGNALLED = 128  # plus the number of the signal: the exit code after a signal


class Obstacle(Struct, frozen=True):
    """Why something could not run: a `reason` in the environment, or the engine; neither means turngate itself.

    `hint` says how to fix it; `at_first` means that the first turn of the release shows it.
    """

    text: str
    reason: Reason | None = None
    by_engine: bool = False
    hint: str = ""
    at_first: bool = False


class ObstacleError(Exception):
    """Something can't run; the fields are those of an `Obstacle`."""

    def __init__(self, text: str, reason: Reason | None = None, *, by_engine: bool = False) -> None:
        super().__init__(text)
        self.obstacle = Obstacle(text, reason, by_engine)

    @classmethod
    def of(cls, obstacle: Obstacle) -> Self:
        """Return the error for an obstacle."""
        error = cls(obstacle.text)
        error.obstacle = obstacle
        return error


class CaseStoppedError(ObstacleError):
    """A case can't continue."""


class InterruptedCaseError(CaseStoppedError):
    """A case can't continue because the probe was interrupted."""

    def __init__(self) -> None:
        super().__init__("interrupted", Reason.INTERRUPTED)


class Interrupt:
    """Ends everything that runs, and starts nothing more."""

    def __init__(self) -> None:
        self._event, self._lock, self._stops = threading.Event(), threading.Lock(), set[Stop]()

    def set(self) -> None:
        """End every running process tree."""
        self._event.set()
        with self._lock:
            for stop in self._stops:
                stop.set()

    def is_set(self) -> bool:
        """Return whether the probe was interrupted."""
        return self._event.is_set()

    def why(self, stopped: Exception) -> Obstacle:
        """Return why a case ended early: an interrupt takes precedence over other failures."""
        if self.is_set():
            return InterruptedCaseError().obstacle
        if isinstance(stopped, ObstacleError):
            return stopped.obstacle
        if isinstance(stopped, MachineError | UsageError):
            return Obstacle(str(stopped), Reason.MACHINE)
        return Obstacle(str(stopped), Reason.CONTRACT if isinstance(stopped, ContractError | RefusedError) else None)

    def wait(self, seconds: float) -> None:
        """Sleep; CaseStoppedError if the interrupt comes first."""
        if self._event.wait(max(0.0, seconds)):
            raise InterruptedCaseError

    @contextmanager
    def scope(self) -> Iterator[Stop]:
        """Return a stop for one process, which the interrupt sets too; CaseStoppedError if already interrupted."""
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


@contextmanager
def interruptible() -> Iterator[Interrupt]:
    """Return an interrupt that the first SIGINT or SIGTERM sets; KeyboardInterrupt if the block fails after that."""
    interrupt = Interrupt()
    with interrupting(interrupt.set):
        try:
            yield interrupt
        except (CaseStoppedError, MachineError, UsageError):
            if interrupt.is_set():
                raise KeyboardInterrupt from None
            raise


def at_end_of_input(interrupt: Callable[[], None]) -> None:
    """Call `interrupt` when standard input ends, as it does when the program at its other end is gone."""

    def wait() -> None:
        # not through sys.stdin: a thread must not hold its lock when the interpreter exits
        while os.read(sys.stdin.fileno(), 4096):
            pass
        interrupt()

    threading.Thread(target=wait, name="turngate-input", daemon=True).start()


@contextmanager
def interrupting(interrupt: Callable[[], None]) -> Iterator[None]:
    """Call `interrupt` at the first SIGINT or SIGTERM; the second one kills."""
    heard_before: list[signal.Signals] = []

    def tell(number: signal.Signals) -> None:
        if heard_before:
            os._exit(SIGNALLED + number)
        heard_before.append(number)
        interrupt()

    with handling_signals((signal.SIGINT, signal.SIGTERM), tell):
        yield
