"""The process tree of a run: find it, wait for it, end it, measure its CPU time.

Theory of operation
===================

An engine starts processes of its own, and some outlive it. Each run therefore has one owner of all that it starts: a
`ProcessTree`. It is made before the main process starts, to note the processes that are there already. Then come, in
this order, `start`; `settle` if the main process has exited on its own, otherwise `end`; and `reap`. After `reap`,
nothing of the tree may be signalled any more.

*Who belongs to it.* The main process leads a new session. A process belongs to the tree if it is in that session, if it
carries the tag of the run in its environment, or if it descends from such a process. A tag is added to those of
enclosing runs, whose owners therefore still find the process. One that leaves the session, drops the environment *and*
loses its parent before a scan is found only inside `adopting_orphans`: on Linux, this program then becomes its parent,
and recognizes it by its mark, a resource limit that descendants inherit. A scan doesn't look into the sessions of other
trees (`LEADERS`), since reading every environment would take too long.

*Who may reap.* The main process stays a zombie after its exit until `reap`, so no other process gets its id or its
group while they are signalled. Nothing else may reap it: not `wait`, `poll` or `communicate` of its `Popen`, nor the
`wait` of psutil. Look with `waitid` and `WNOWAIT`, as `ProcessTree.wait` does. Nobody waits for an adopted process, so
`reap_adopted` reaps it: after each tree, and in `reaping_adopted` whenever a child ends. It spares `LEADERS`. A main
process that has started and isn't in there yet would look like an orphan; the lock `STARTING` prevents that.

*Which thread may touch what.* A tree has no lock: one thread at a time uses it. `execution.run` does so on the thread
that calls it. That thread waits for one queue of events, and all others at most put something into it. One waits for
the exit. One for each pipe writes or reads it, so that neither side blocks the other; those of the two outputs call
`on_output`, one call at a time. They are daemons and may be left behind, since a process that can't be ended may keep a
pipe open forever. `Stop.set` takes no lock: a signal handler that calls it may have interrupted whoever holds one.

*What moves on.* A process may fork and end every few milliseconds, each time in a new session, so that any list of
processes is old when it is read. A search that sees a process end is therefore repeated, and signals each process as
soon as it finds it; see `family.Search`.

*What can go wrong.* `settle` and `end` need file descriptors, and wait if none is free; a start fails then. A start
takes time, and so does `end_orphans`: a `critical` section, such as a write transaction, refuses both. If this program
dies, nobody ends the tree. Whoever wants it ended all the same saves its tag before the start, and the id and the start
time of the main process once they are known. `end_orphans` ends all that carry the tag, and the saved process if the
start time shows that it is the same one.
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

from turngate.errors import MachineError, UsageError
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


def check_tag(tag: str) -> None:
    """UsageError if a tag has a slash, which would make it two, so that no process had it."""
    if "/" in tag:
        raise UsageError(f"the tag {tag!r} has a slash, which separates tags", "use another character, such as `.`")


class ProcessTree:
    """The tree of a real process, created before its start with its future tag."""

    def __init__(self, tag: str) -> None:
        """Note the processes that are there before; MachineError if they can't be listed. UsageError: no such tag."""
        check_tag(tag)
        self._tag = tag
        try:
            self._before = sessions()
        except OSError as error:
            raise MachineError(f"processes can't be listed: {error.strerror}", HINT) from error
        self._mark: int | None = None
        self._cpu_before_end = 0.0
        self._cpu_of_rest = 0.0

    def start(
        self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], *, stdin: bool, stdout: int | None = None
    ) -> subprocess.Popen[bytes]:
        """Start the main process, as `launch` does, with its tag after those of enclosing runs."""
        # the outer tags stay, so that enclosing runs can find this run's processes
        with STARTING, marking() as self._mark:
            tagged = {**env, TAG: f"{os.environ.get(TAG, '')}/{self._tag}"}
            process = launch(argv, cwd, tagged, stdin=stdin, stdout=stdout)
            try:
                self.adopt(process)
            except OSError:  # such as no free file descriptor; nobody else knows of the process
                with process:
                    process.kill()
                raise
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
            while not self.has_exited():
                time.sleep(POLL)

    def has_exited(self) -> bool:
        """Return whether the main process has exited, without reaping it."""
        if hasattr(os, "waitid"):
            with suppress(ChildProcessError):
                return os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None
            return True
        from turngate.process.family import is_alive  # noqa: PLC0415 - slow to import

        return not is_alive(self._pid)

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
