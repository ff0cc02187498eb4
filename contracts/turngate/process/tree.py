"""The tree of a process: find it, wait for it, end it, account for it.

A process belongs to the tree if it is in the session of the main process, carries the tag of the run in its
environment, or descends from one that does. What leaves the session, drops the environment *and* loses its
parent, all before the tree is looked at, is out of reach.
"""

import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol

import psutil
from msgspec import Struct

TAG = "TURNGATE_RUN"  # environment variable that holds the ids of the run and of those around it
SETTLE_GRACE = 0.3  # seconds in which what outlives the main process may end by itself
TERM_GRACE = 2.0  # seconds between SIGTERM and SIGKILL
KILL_GRACE = 3.0  # seconds after SIGKILL until a process counts as a survivor
_POLL = 0.005
# the main processes that are not reaped: each leads a session that nothing else can join
_leaders: set[int] = set()


class Leftover(Struct, frozen=True):
    """A process of the tree that was still alive after the main process had exited by itself.

    `survived` tells that it could not be ended; after a timeout or a stop these alone are reported. `argv` is
    empty if it could not be read.
    """

    pid: int
    argv: tuple[str, ...]
    survived: bool


class Tree(Protocol):
    """All that `run` does to processes after their start. A test with a fake process brings a fake tree."""

    def adopt(self, process: subprocess.Popen[bytes]) -> None:
        """Take `process`, which was just started, as the main process."""

    def wait(self) -> None:
        """Block until the main process has exited."""

    def settle(self) -> tuple[Leftover, ...]:
        """End what outlived the main process, after a short grace, and return it."""

    def end(self) -> tuple[Leftover, ...]:
        """End the whole tree, politely first, and return the survivors."""

    def reap(self) -> tuple[int | None, float]:
        """Return the exit code (None if there is none to get) and the CPU seconds of the tree."""


class ProcessTree:
    """The tree of a real process; created before its start with the tag that it will carry.

    The main process stays a zombie until `reap`, so that its process id and group cannot pass to another
    process while they are signalled.
    """

    def __init__(self, tag: str) -> None:
        self._tag = tag
        self._before = _sessions()
        self._cpu_before_end = 0.0
        self._cpu_of_rest = 0.0

    def adopt(self, process: subprocess.Popen[bytes]) -> None:
        """Take `process`, which was just started, as the main process.

        Raises:
            RuntimeError: it is not a child of this process that leads its session, such as a fake one.
        """
        self._process, self._pid = process, process.pid
        try:
            ours = psutil.Process(self._pid).ppid() == os.getpid() and os.getsid(self._pid) == self._pid
        except (psutil.NoSuchProcess, ProcessLookupError):
            ours = False
        if not ours:
            raise RuntimeError(f"process {self._pid} is no child of this process that leads its own session")
        _leaders.add(self._pid)

    def wait(self) -> None:
        """Block until the main process has exited, without reaping it."""
        if hasattr(os, "waitid"):
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        else:  # macOS before Python 3.13
            while not self._exited():
                time.sleep(_POLL)

    def settle(self) -> tuple[Leftover, ...]:
        """End what outlived the exited main process, after a short grace, and return it."""
        rest = self._alive()
        if rest:
            _wait_gone(rest, time.monotonic() + SETTLE_GRACE)
            rest = self._alive()
        argvs = {process: _argv(process) for process in rest}
        self._cpu_of_rest = _cpu(rest)
        survivors = self._end() if rest else []
        argvs |= {process: _argv(process) for process in survivors if process not in argvs}
        return tuple(Leftover(each.pid, argv, each in survivors) for each, argv in argvs.items())

    def end(self) -> tuple[Leftover, ...]:
        """End the whole tree with SIGTERM, a grace, then SIGKILL, and return the survivors."""
        self._cpu_before_end = _cpu(self._alive())
        return tuple(Leftover(each.pid, _argv(each), survived=True) for each in self._end())

    def reap(self) -> tuple[int | None, float]:
        """Reap the main process and return its exit code and the CPU seconds of the tree.

        The kernel adds a child's time to its parent when the parent reaps it. Times of processes that were
        ended before that are those seen just before, so the sum is a lower bound.
        """
        reaped = self._wait4(TERM_GRACE)
        if reaped is None:
            with suppress(OSError):
                os.killpg(self._pid, signal.SIGKILL)
            reaped = self._wait4(KILL_GRACE)
        _leaders.discard(self._pid)
        if reaped is None:
            return None, self._cpu_before_end
        status, usage = reaped
        self._process.returncode = os.waitstatus_to_exitcode(status)
        cpu = usage.ru_utime + usage.ru_stime + self._cpu_of_rest
        return self._process.returncode, max(cpu, self._cpu_before_end)

    def _wait4(self, grace: float) -> tuple[int, resource.struct_rusage] | None:
        """Reap the main process; None if there is nothing to reap.

        What looks like a zombie may not be reapable yet: its first thread has ended, others are still ending.
        """
        deadline = time.monotonic() + grace
        with suppress(ChildProcessError):  # another part of this program reaps every child
            while True:
                pid, status, usage = os.wait4(self._pid, os.WNOHANG)
                if pid:
                    return status, usage
                if time.monotonic() >= deadline:
                    break
                time.sleep(_POLL)
        return None

    def _exited(self) -> bool:
        """Return whether the main process is a zombie or gone."""
        try:
            return psutil.Process(self._pid).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    def _end(self) -> list[psutil.Process]:
        """Signal all that is alive until nothing is, and return the survivors."""
        alive: list[psutil.Process] = []
        for number, grace in ((signal.SIGTERM, TERM_GRACE), (signal.SIGKILL, KILL_GRACE)):
            deadline = time.monotonic() + grace
            # what is signalled may have forked meanwhile, so look until nothing is found
            while alive := self._alive():
                self._signal(alive, number)
                _wait_gone(alive, deadline)
                if time.monotonic() >= deadline:
                    break
            else:
                return []
        return alive

    def _signal(self, processes: Iterable[psutil.Process], number: signal.Signals) -> None:
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
        return [process for process in members if _is_alive(process)]

    def _scan(self) -> tuple[list[psutil.Process], bool]:
        """Look once at every process younger than the run; the flag tells that one was gone meanwhile.

        One that is gone may have left a child that was not on the list yet.
        """
        members: list[psutil.Process] = []
        others: list[psutil.Process] = []
        missed = False
        for pid, session in _sessions() - self._before:
            if session != self._pid and session in _leaders:
                continue  # of another tree; to read what each one carries would cost most of many runs side by side
            try:
                process = psutil.Process(pid)
                known = session == self._pid or self._is_tagged(process)
                (members if known else others).append(process)
            except psutil.NoSuchProcess:
                missed = True
        return members + _descendants(members, others), missed

    def _is_tagged(self, process: psutil.Process) -> bool:
        environment: dict[str, str] = {}
        with suppress(psutil.AccessDenied, psutil.ZombieProcess):
            for _ in range(5):
                environment = process.environ()
                # for a moment within exec there is none; a kernel thread has no executable either
                if environment or not process.exe():
                    break
                time.sleep(_POLL / 2)
        return self._tag in environment.get(TAG, "")


def _sessions() -> set[tuple[int, int]]:
    """Return every process as (pid, session id).

    What is in a later set but not in an earlier one has started since (or has changed its session, or has a
    number that was used before): two system calls a process, where its start time would cost reading a file.
    """
    sessions = set()
    for pid in psutil.pids():
        with suppress(OSError):
            sessions.add((pid, os.getsid(pid)))
    return sessions


def _descendants(members: list[psutil.Process], others: list[psutil.Process]) -> list[psutil.Process]:
    """Return those of `others` that descend from `members`."""
    if not members:
        return []
    parents = {}
    for process in others:
        with suppress(psutil.NoSuchProcess):
            parents[process] = process.ppid()
    pids, found = {process.pid for process in members}, []
    while new := [process for process, parent in parents.items() if parent in pids]:
        found += new
        pids |= {process.pid for process in new}
        parents = {process: parent for process, parent in parents.items() if process not in new}
    return found


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _wait_gone(processes: Iterable[psutil.Process], deadline: float) -> None:
    """Wait until none of `processes` is alive or `deadline` (monotonic) has passed."""
    # psutil's own wait would reap the main process
    while any(_is_alive(process) for process in processes) and time.monotonic() < deadline:
        time.sleep(_POLL)


def _cpu(processes: Iterable[psutil.Process]) -> float:
    """Return the CPU seconds of `processes` and of the children that they reaped."""
    total = 0.0
    for process in processes:
        with suppress(psutil.Error):
            total += sum(process.cpu_times()[:4])
    return total


def _argv(process: psutil.Process) -> tuple[str, ...]:
    try:
        return tuple(process.cmdline())
    except psutil.Error:
        return ()
