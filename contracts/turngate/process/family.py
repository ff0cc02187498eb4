"""Finds the members of a process tree and ends them, including those left by a dead program.

It is slow to import, and only needed for trees that left something.
"""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress

import psutil
from msgspec import Struct

from turngate.process.launch import refuse_in_critical
from turngate.process.marks import LIVE, mark_of
from turngate.process.sessions import LEADERS, POLL, STARTING, TAG, Leftover, Process, is_adopted, younger

TERM_GRACE = 2.0  # seconds between SIGTERM and SIGKILL
KILL_GRACE = 3.0  # seconds after SIGKILL until a process counts as a survivor
_CLOCK_SLACK = 1.0  # seconds between two readings of one process's start time


def leftover(process: psutil.Process, *, survived: bool) -> Leftover:
    """Describe a process that outlived the one that was run."""
    try:
        return Leftover(process.pid, tuple(process.cmdline()), survived)
    except psutil.Error:
        return Leftover(process.pid, (), survived)


def is_alive(process: psutil.Process | int) -> bool:
    """Return whether a process (object or id) is running; a zombie is not."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(process) if isinstance(process, int) else process
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def start_time(pid: int) -> float:
    """Return a living process's start time in seconds since the epoch; psutil.NoSuchProcess if it is gone."""
    return psutil.Process(pid).create_time()


def tags_of(process: psutil.Process) -> set[str]:
    """Return the tags of a process, none if they can't be read; psutil.NoSuchProcess if it is gone."""
    environment: dict[str, str] = {}
    with suppress(psutil.AccessDenied, psutil.ZombieProcess):
        for _ in range(5):
            environment = process.environ()
            # during exec there is briefly none; kernel threads never have an executable
            if environment or not process.exe():
                break
            time.sleep(POLL / 2)
    return set(environment.get(TAG, "").split("/")) - {""}


def tagged(tags: set[str]) -> Iterator[psutil.Process]:
    """Return the living processes with one of the tags, except this one."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and not tags.isdisjoint(tags_of(process)) and is_alive(process):
                yield process


def wait_gone(processes: Iterable[psutil.Process], deadline: float) -> None:
    """Wait until none of `processes` is alive or `deadline` (monotonic) has passed."""
    # psutil's `wait` would reap the main process
    while any(map(is_alive, processes)) and time.monotonic() < deadline:
        time.sleep(POLL)


def end_all(
    living: Callable[[], list[psutil.Process]], send: Callable[[list[psutil.Process], signal.Signals], None]
) -> list[psutil.Process]:
    """Send SIGTERM, then SIGKILL, to the processes that `living` returns until none is left; return the survivors."""
    alive: list[psutil.Process] = []
    for number, grace in ((signal.SIGTERM, TERM_GRACE), (signal.SIGKILL, KILL_GRACE)):
        deadline = time.monotonic() + grace
        # a signalled process may have forked meanwhile, so repeat until nothing is left
        while alive := living():
            send(alive, number)
            wait_gone(alive, deadline)
            if time.monotonic() >= deadline:
                break
        else:
            return []
    return alive


class Noted(Struct, frozen=True):
    """A saved note on a process tree: its tag, and the id and start time of its main process.

    `pid` is None if it was never saved; `started_at` is in seconds since the epoch.
    """

    tag: str
    pid: int | None = None
    started_at: float | None = None


def end_orphans(noted: Iterable[Noted]) -> tuple[int, ...]:
    """End every process that has one of the tags or is a noted main process, with all its children.

    Sends SIGTERM and, after a grace period, SIGKILL; returns the ids of the survivors. The start time is compared too,
    since another process may have reused the process id.
    """
    refuse_in_critical("processes are ended")
    wanted = list(noted)
    seen: dict[psutil.Process, None] = {}

    def living() -> list[psutil.Process]:
        for root in [*tagged({row.tag for row in wanted}), *(main for row in wanted for main in _main(row))]:
            seen[root] = None
            with suppress(psutil.Error):
                seen.update(dict.fromkeys(root.children(recursive=True)))
        return [process for process in seen if is_alive(process)]

    def send(processes: list[psutil.Process], number: signal.Signals) -> None:
        for process in processes:
            with suppress(psutil.Error):
                process.send_signal(number)

    return tuple(process.pid for process in end_all(living, send)) if wanted else ()


def _main(noted: Noted) -> Iterator[psutil.Process]:
    with suppress(psutil.Error):
        if noted.pid is not None and noted.started_at is not None and noted.pid != os.getpid():
            process = psutil.Process(noted.pid)
            if abs(process.create_time() - noted.started_at) < _CLOCK_SLACK:
                yield process


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
