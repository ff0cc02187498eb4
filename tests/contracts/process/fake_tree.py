"""A tree for tests with pytest-subprocess, whose fake processes have pids that belong to real ones."""

import os
import subprocess
import threading
from collections.abc import Callable

import pytest

from turngate.process import Leftover, ProcessTree


class FakeTree(ProcessTree):
    """Does by the fake `Popen` alone what `ProcessTree` does by pid, so that nothing real is signalled.

    The pipes of the fake are complete from the start, so register it without `wait=`.
    """

    def adopt(self, process: subprocess.Popen[bytes]) -> None:
        """Take the fake."""
        self.process = process

    def wait(self) -> None:
        """Wait for the fake."""
        self.process.wait()

    def settle(self) -> tuple[Leftover, ...]:
        """A fake leaves nothing."""
        return ()

    def end(self) -> tuple[Leftover, ...]:
        """Terminate the fake."""
        self.process.terminate()
        return ()

    def reap(self) -> tuple[int | None, float]:
        """Return its exit code; it needs no time."""
        return self.process.returncode, 0.0


class HangingTree(FakeTree):
    """The tree of a fake that has printed all it has and goes on until it is ended; `on_hang` hears of that."""

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
    """Fail whatever would signal a real process by the pid of a fake."""
    kill, killpg = os.kill, os.killpg

    def refused(send: Callable[[int, int], None]) -> Callable[[int, int], None]:
        def signal(pid: int, number: int) -> None:
            assert number == 0, f"signal {number} to the real process {pid}"
            send(pid, number)

        return signal

    monkeypatch.setattr(os, "kill", refused(kill))
    monkeypatch.setattr(os, "killpg", refused(killpg))
