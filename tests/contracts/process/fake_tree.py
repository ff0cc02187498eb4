"""A process tree for pytest-subprocess, whose fake processes have pids of real ones."""

import os
import subprocess
import threading
from collections.abc import Callable

import pytest

from turngate.process.sessions import Leftover
from turngate.process.tree import ProcessTree


class FakeTree(ProcessTree):
    """Uses only the fake `Popen` where `ProcessTree` uses pids, so that nothing real is signalled.

    The fake's output is complete from the start, so register it without `wait=`.
    """

    def adopt(self, process: subprocess.Popen[bytes]) -> None:
        """Take the fake."""
        self.process = process

    def wait(self) -> None:
        """Wait for the fake."""
        self.process.wait()

    def settle(self) -> tuple[Leftover, ...]:
        """Return no leftovers, since a fake has no children."""
        return ()

    def end(self) -> tuple[Leftover, ...]:
        """Terminate the fake."""
        self.process.terminate()
        return ()

    def reap(self) -> tuple[int | None, float]:
        """Return the fake's exit code at once."""
        return self.process.returncode, 0.0


class HangingTree(FakeTree):
    """The tree of a fake that has printed everything and runs until it is ended; `on_hang` is called then."""

    def __init__(self, tag: str, on_hang: Callable[[], None] = lambda: None) -> None:
        super().__init__(tag)
        self._on_hang = on_hang
        self._ended = threading.Event()

    def wait(self) -> None:
        """Wait for `end`."""
        self._on_hang()
        self._ended.wait()

    def end(self) -> tuple[Leftover, ...]:
        """Terminate the fake, which ends at once."""
        self._ended.set()
        return super().end()


def forbid_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail any attempt to signal a real process by the pid of a fake."""
    kill, killpg = os.kill, os.killpg

    def refused(send: Callable[[int, int], None]) -> Callable[[int, int], None]:
        def signal(pid: int, number: int) -> None:
            assert number == 0, f"signal {number} to the real process {pid}"
            send(pid, number)

        return signal

    monkeypatch.setattr(os, "kill", refused(kill))
    monkeypatch.setattr(os, "killpg", refused(killpg))
