"""The process tree of a run: find it, wait for it, end it, measure its CPU time.

A process belongs to the tree if it is in the session of the main process, carries the tag of the run in its
environment, or descends from such a process. A process that leaves the session, drops the environment *and* loses its
parent before the tree is scanned is found only inside `adopting_orphans`.
"""

import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from turngate.process import scan
from turngate.process.launch import launch
from turngate.process.orphans import is_adopted, reap_adopted
from turngate.process.scan import POLL, TAG, Leftover, end_all, is_alive, start_time, tags_of, wait_gone

SETTLE_GRACE = 0.3  # seconds in which what outlives the main process may end by itself
# the main processes that are not reaped; each leads a session that no other process can join
_leaders: set[int] = set()
_starting = threading.Lock()  # prevents treating a main process that is not yet a session leader as an orphan


class ProcessTree:
    """The tree of a real process, created before its start with its future tag.

    The main process stays a zombie until `reap`, so that no other process can reuse its process id and group while they
    are signalled.
    """

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._before = _sessions()
        self._cpu_before_end = 0.0
        self._cpu_of_rest = 0.0

    def start(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str], *, stdin: bool) -> subprocess.Popen[bytes]:
        """Start the main process, as `launch` does, with its tag after those of enclosing runs."""
        # the outer tags stay, so that enclosing runs can find this run's processes
        with _starting:
            process = launch(argv, cwd, {**env, TAG: f"{os.environ.get(TAG, '')}/{self._tag}"}, stdin=stdin)
            self.adopt(process)
        return process

    def adopt(self, process: subprocess.Popen[bytes]) -> None:
        """Use a process that was just started; RuntimeError unless it is our child and leads its session."""
        self._process, self._pid = process, process.pid
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if psutil.Process(self._pid).ppid() == os.getpid() and os.getsid(self._pid) == self._pid:
                _leaders.add(self._pid)
                return
        raise RuntimeError(f"process {self._pid} isn't a child of this process, or doesn't lead its own session")

    def wait(self) -> None:
        """Block until the main process has exited, without reaping it."""
        if hasattr(os, "waitid"):
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        else:  # macOS before Python 3.13
            while is_alive(self._pid):
                time.sleep(POLL)

    def settle(self) -> tuple[Leftover, ...]:
        """End and return the processes that outlived the exited main process, after a short grace period."""
        if not (rest := self._alive()):
            return ()
        wait_gone(rest, time.monotonic() + SETTLE_GRACE)
        rest = self._alive()
        self._cpu_of_rest = _cpu(rest)
        leftovers = {process.pid: Leftover.of(process, survived=False) for process in rest}
        return tuple((leftovers | {survivor.pid: survivor for survivor in self._end()}).values())

    def end(self) -> tuple[Leftover, ...]:
        """End the whole tree with SIGTERM and, after a grace period, SIGKILL; return the survivors."""
        self._cpu_before_end = _cpu(self._alive())
        return self._end()

    def _end(self) -> tuple[Leftover, ...]:
        return tuple(Leftover.of(process, survived=True) for process in end_all(self._alive, self._signal))

    def reap(self) -> tuple[int | None, float]:
        """Reap the main process and return its exit code and the CPU seconds of the tree.

        The kernel adds a child's time to its parent when the parent reaps it. For processes terminated before that, the
        last measured times count, so the sum is a lower bound.
        """
        reaped = self._wait4(scan.TERM_GRACE)
        if reaped is None:
            with suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)
            reaped = self._wait4(scan.KILL_GRACE)
        _leaders.discard(self._pid)
        with _starting:
            reap_adopted(_leaders)
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

    def _signal(self, processes: list[psutil.Process], number: signal.Signals) -> None:
        """Signal the group of the main process at once, and each of `processes` outside of it."""
        with suppress(OSError):
            os.killpg(self._pid, number)
        for process in processes:
            with suppress(psutil.Error, OSError):
                if os.getpgid(process.pid) != self._pid:
                    process.send_signal(number)

    def _alive(self) -> list[psutil.Process]:
        """Return the living processes of the tree, the main process included."""
        members: list[psutil.Process] = []
        for _ in range(5):
            members, missed = self._scan()
            if not missed:
                break
        return [process for process in members if is_alive(process)]

    def _scan(self) -> tuple[list[psutil.Process], bool]:
        """Scan every process younger than the run; the flag: one is gone and may have left an unseen child."""
        members: list[psutil.Process] = []
        others: list[psutil.Process] = []
        missed = False
        for pid, session in _sessions() - self._before:
            if session != self._pid and session in _leaders:
                continue  # of another tree; reading every environment would dominate the cost of many parallel runs
            try:
                process = psutil.Process(pid)
                tags = {self._tag} if session == self._pid else tags_of(process)
                known = self._tag in tags or (not tags and self._inherits(process, session))
                (members if known else others).append(process)
            except psutil.NoSuchProcess:
                missed = True
        return members + _descendants(members, others), missed

    def _inherits(self, process: psutil.Process, session: int) -> bool:
        """Return whether only this tree can have left an adopted process: no older tree is still running."""
        if not is_adopted(process, session):
            return False
        with _starting:
            others = _leaders - {self._pid}
        if session in others:
            return False
        born = process.create_time()
        return not any(is_alive(leader) and start_time(leader) <= born for leader in others)


def _sessions() -> set[tuple[int, int]]:
    """Return every process as (pid, session id).

    A member of a later set that an earlier one lacks has started since (or has changed its session, or reuses a process
    id). This takes two system calls per process; reading start times would take a file access each.
    """
    sessions = set()
    for pid in psutil.pids():
        with suppress(OSError):
            sessions.add((pid, os.getsid(pid)))
    return sessions


def _descendants(members: list[psutil.Process], others: list[psutil.Process]) -> list[psutil.Process]:
    """Return those of `others` that descend from `members`."""
    children: dict[int, list[psutil.Process]] = {}
    for process in others if members else ():
        with suppress(psutil.NoSuchProcess):
            children.setdefault(process.ppid(), []).append(process)
    family = list(members)
    for process in family:  # the list grows during the loop
        family += children.pop(process.pid, [])
    return family[len(members) :]


def _cpu(processes: list[psutil.Process]) -> float:
    """Return the CPU seconds of `processes` and of the children that they reaped."""
    total = 0.0
    for process in processes:
        with suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])
    return total
