"""A tree for tests with pytest-subprocess, whose fake processes have pids that belong to real ones."""

import subprocess

from turngate.runtime import Leftover


class FakeTree:
    """Does by the fake `Popen` alone what `ProcessTree` does by pid, so that nothing real is signalled.

    The pipes of the fake are complete from the start, so register it without `wait=`.
    """

    def __init__(self, tag: str) -> None:
        self.tag = tag

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
