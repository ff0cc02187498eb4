"""Scans the members of a process tree and ends them; slow to import, and only for trees that left something."""

import os
import signal
import time
from collections.abc import Set as AbstractSet
from contextlib import suppress

import psutil

from turngate.process.leftover import Leftover
from turngate.process.marks import LIVE, mark_of
from turngate.process.orphans import is_adopted
from turngate.process.scan import end_all, is_alive, leftover, start_time, tags_of, wait_gone
from turngate.process.sessions import LEADERS, STARTING, Process, younger


class Family:
    """The processes of a tree: the main process `pid`, the tag of the run, and all processes `before` its start.

    `mark` is that of the tree (None: it has none, so that nothing adopted belongs to it).
    """

    def __init__(self, pid: int, tag: str, before: AbstractSet[Process], mark: int | None = None) -> None:
        self._pid = pid
        self._mark = mark
        self._tag = tag
        self._before = before

    def settle(self, grace: float) -> tuple[tuple[Leftover, ...], float]:
        """End what outlived the exited main process, after a grace period in seconds; return it and its CPU seconds."""
        if not (rest := self._alive()):
            return (), 0.0
        wait_gone(rest, time.monotonic() + grace)
        rest = self._alive()
        cpu = _cpu(rest)
        leftovers = {process.pid: leftover(process, survived=False) for process in rest}
        return tuple((leftovers | {survivor.pid: survivor for survivor in self._end()}).values()), cpu

    def end(self) -> tuple[tuple[Leftover, ...], float]:
        """End the whole tree with SIGTERM, later SIGKILL; return the survivors, and the CPU seconds before."""
        cpu = _cpu(self._alive())
        return self._end(), cpu

    def _end(self) -> tuple[Leftover, ...]:
        return tuple(leftover(process, survived=True) for process in end_all(self._alive, self._signal))

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
        for pid, session in younger(self._before):
            if session != self._pid and session in LEADERS:
                continue  # of another tree; reading every environment would dominate the cost of many parallel runs
            try:
                process = psutil.Process(pid)
                tags = {self._tag} if session == self._pid else tags_of(process)
                known = self._tag in tags or (not tags and self._left(process, session))
                (members if known else others).append(process)
            except psutil.NoSuchProcess:
                missed = True
        return members + _descendants(members, others), missed

    def _left(self, process: psutil.Process, session: int) -> bool:
        """Return whether this tree left an adopted process.

        A foreign mark is that of another turngate, which this tree may have started: it counts unless an older tree is
        still running. A process whose limit is our own was never started by a tree, such as another child of the
        program that this one replaced.
        """
        if self._mark is None or not is_adopted(process, session):
            return False
        with STARTING:
            others, known = LEADERS - {self._pid}, {*LIVE, mark_of(0), None}
        mark = mark_of(process.pid)
        if mark == self._mark or mark in known or session in others:
            return mark == self._mark
        born = process.create_time()
        return not any(is_alive(leader) and start_time(leader) <= born for leader in others)


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
