"""The process tree of a run: find it, wait for it, end it, measure its CPU time.

A process belongs to the tree if it is in the session of the main process, carries the tag of the run in its
environment, or descends from such a process. A process that leaves the session, drops the environment *and* loses its
parent before the tree is scanned is found only inside `adopting_orphans`, by its mark.
"""

import os
import resource
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from turngate.errors import MachineError
from turngate.process.launch import HINT, launch, patiently
from turngate.process.marks import LIVE, marking
from turngate.process.sessions import (
    LEADERS,
    POLL,
    STARTING,
    TAG,
    Leftover,
    is_child,
    is_unrelated,
    reap_adopted,
    sessions,
    younger,
)

if TYPE_CHECKING:
    from turngate.process.family import Family

SETTLE_GRACE = 0.3  # seconds in which what outlives the main process may end by itself


class ProcessTree:
    """The tree of a real process, created before its start with its future tag.

    The main process stays a zombie until `reap`, so that no other process can reuse its process id and group while they
    are signalled.
    """

    def __init__(self, tag: str) -> None:
        """Note the processes that are there before; MachineError if they can't be listed."""
        self._tag = tag
        try:
            self._before = sessions()
        except OSError as error:
            raise MachineError(f"processes can't be listed: {error.strerror}", HINT) from error
        self._mark: int | None = None
        self._cpu_before_end = 0.0
        self._cpu_of_rest = 0.0

    def start(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], *, stdin: bool) -> subprocess.Popen[bytes]:
        """Start the main process, as `launch` does, with its tag after those of enclosing runs."""
        # the outer tags stay, so that enclosing runs can find this run's processes
        with STARTING, marking() as self._mark:
            process = launch(argv, cwd, {**env, TAG: f"{os.environ.get(TAG, '')}/{self._tag}"}, stdin=stdin)
            self.adopt(process)
        return process

    def adopt(self, process: subprocess.Popen[bytes]) -> None:
        """Use a process that was just started; RuntimeError unless it is our child and leads its session."""
        self._process, self._pid = process, process.pid
        with suppress(ProcessLookupError):
            if is_child(self._pid) and os.getsid(self._pid) == self._pid:
                LEADERS.add(self._pid)
                return
        raise RuntimeError(f"process {self._pid} isn't a child of this process, or doesn't lead its own session")

    def wait(self) -> None:
        """Block until the main process has exited, without reaping it."""
        if hasattr(os, "waitid"):
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        else:  # macOS before Python 3.13
            from turngate.process.family import is_alive  # noqa: PLC0415 - slow to import

            while is_alive(self._pid):
                time.sleep(POLL)

    def settle(self) -> tuple[Leftover, ...]:
        """End and return the processes that outlived the exited main process, after a short grace period.

        Like `end`, it waits for file descriptors if none is free; OSError if none gets free.
        """
        return patiently(self._settle)

    def _settle(self) -> tuple[Leftover, ...]:
        rest = younger(self._before) - {(self._pid, self._pid)}
        if all(is_unrelated(process, self._pid, self._tag) for process in rest):
            return ()
        leftovers, self._cpu_of_rest = self._family().settle(SETTLE_GRACE)
        return leftovers

    def end(self) -> tuple[Leftover, ...]:
        """End the whole tree with SIGTERM and, after a grace period, SIGKILL; return the survivors."""
        survivors, self._cpu_before_end = patiently(lambda: self._family().end())
        return survivors

    def _family(self) -> "Family":
        from turngate.process.family import Family  # noqa: PLC0415 - slow to import, and most trees leave nothing

        return Family(self._pid, self._tag, self._before, self._mark)

    def reap(self) -> tuple[int | None, float]:
        """Reap the main process and return its exit code and the CPU seconds of the tree.

        The kernel adds a child's time to its parent when the parent reaps it. For processes terminated before that, the
        last measured times count, so the sum is a lower bound.
        """
        reaped = self._wait4(0) or self._wait4_patiently()
        LEADERS.discard(self._pid)
        with STARTING:
            if self._mark is not None:
                LIVE.discard(self._mark)
            reap_adopted(LEADERS)
        if reaped is None:
            return None, self._cpu_before_end
        status, usage = reaped
        self._process.returncode = os.waitstatus_to_exitcode(status)
        cpu = usage.ru_utime + usage.ru_stime + self._cpu_of_rest
        return self._process.returncode, max(cpu, self._cpu_before_end)

    def _wait4(self, grace: float) -> tuple[int, resource.struct_rusage] | None:
        """Reap the main process; None if there is nothing to reap.

        An apparent zombie may not be reapable yet: its first thread has ended while others are still ending.
        """
        deadline = time.monotonic() + grace
        with suppress(ChildProcessError):  # another part of this program reaps every child
            while not (reaped := os.wait4(self._pid, os.WNOHANG))[0] and time.monotonic() < deadline:
                time.sleep(POLL)
            return reaped[1:] if reaped[0] else None
        return None

    def _wait4_patiently(self) -> tuple[int, resource.struct_rusage] | None:
        from turngate.process import family  # noqa: PLC0415 - slow to import, and most processes have ended

        reaped = self._wait4(family.TERM_GRACE)
        if reaped is None:
            with suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)
            reaped = self._wait4(family.KILL_GRACE)
        return reaped
