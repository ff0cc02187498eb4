"""Finds the members of a process tree and ends them, including those left by a dead program.

It is slow to import, and only needed for trees that left something.
"""

import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
from msgspec import Struct

from turngate.process.launch import refuse_in_critical
from turngate.process.marks import LIVE, mark_of
from turngate.process.sessions import LEADERS, POLL, STARTING, TAG, Leftover, Process, is_adopted, pids, younger

TERM_GRACE = 2.0  # seconds between SIGTERM and SIGKILL
KILL_GRACE = 3.0  # seconds after SIGKILL until a process counts as a survivor
HUNT = 30.0  # seconds in which what goes on in new processes is followed with SIGKILL
_CLOCK_SLACK = 1.0  # seconds between two readings of one process's start time
_INCONCLUSIVE = 20  # searches in a row that miss something until one that finds nothing counts all the same


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


def is_ending(process: psutil.Process) -> bool:
    """Return whether a process is gone, or killed: a busy kernel may need seconds to end it."""
    status = ""
    with suppress(OSError):  # it is gone, or the system is another than Linux
        status = Path(f"/proc/{process.pid}/status").read_text("ascii", "replace")
    pending = re.findall(r"^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)$", status, re.MULTILINE)
    return any(int(mask, 16) & 1 << signal.SIGKILL - 1 for mask in pending) or not is_alive(process)


def start_time(pid: int) -> float:
    """Return a living process's start time in seconds since the epoch; psutil.NoSuchProcess if it is gone."""
    return psutil.Process(pid).create_time()


def tags_of(process: psutil.Process) -> set[str]:
    """Return the tags of a process, none if they can't be read; psutil.NoSuchProcess if it is gone, or about to be."""
    environment: dict[str, str] = {}
    with suppress(psutil.AccessDenied, psutil.ZombieProcess):
        for _ in range(5):
            if environment := process.environ():
                break
            if not process.exe():
                # what ends has lost its memory before it is a zombie; a kernel thread never had any, and mostly sleeps
                if process.status() == psutil.STATUS_RUNNING:
                    raise psutil.NoSuchProcess(process.pid)
                break
            time.sleep(POLL / 2)  # during exec there is briefly no environment
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


class Found(Struct, frozen=True):
    """The processes that a search has found alive.

    `missed`: a process ended during the search, so that it may have left another one that the search has not seen.
    """

    processes: list[psutil.Process]
    missed: bool


class Search:
    """Searches for processes and signals them, also those that go on in a new process every few milliseconds."""

    def __init__(self) -> None:
        """Start without a memory: of what has ended, and of what was found, since a process may lose its parent."""
        self._ended: set[psutil.Process] = set()
        self._known: set[psutil.Process] = set()
        self._others: dict[int, tuple[psutil.Process, int]] = {}
        self._hurries = False

    def once(
        self,
        candidates: Iterable[int],
        belongs: Callable[[psutil.Process], bool],
        tell: Callable[[psutil.Process], None] = lambda _: None,
    ) -> Found:
        """Find what `belongs` among the process ids, and what descends from it; `tell` each process once it is found.

        Children mostly come before their parents, as they lose them when these are told to end. A search after one
        that missed something looks only at new processes, since the rest takes longer than such a process lives. A
        thorough one must follow, so it counts as one that misses something.
        """
        hurried, earlier = self._hurries, self._others
        members, others, missed = list[psutil.Process](), dict[int, tuple[psutil.Process, int]](), False
        for pid in sorted(candidates, reverse=True):
            if hurried and pid in earlier:
                others[pid] = earlier[pid]
                continue
            try:
                process = psutil.Process(pid)
                if process in self._ended:
                    continue
                parent, is_member = process.ppid(), process in self._known or belongs(process)
                if not is_alive(process):
                    self._ended.add(process)  # a zombie, which the next search need not look at
                    missed = True
                elif is_member:
                    members.append(process)
                    tell(process)
                else:
                    others[pid] = (process, parent)
            except psutil.NoSuchProcess:
                missed = True
        for process in _descendants(members, others.values()):
            members.append(process)
            del others[process.pid]
            tell(process)
        self._known.update(members)
        self._others, self._hurries = others, missed or not all(map(is_alive, members))
        return Found(members, hurried or self._hurries)

    def thoroughly(self, once: Callable[[], Found]) -> list[psutil.Process]:
        """Search until nothing is missed; return what was found then, or else last."""
        found = list[psutil.Process]()
        for _ in range(_INCONCLUSIVE):
            result = once()
            if not result.missed:
                return result.processes
            found = result.processes or found
        return found


def end_all(sweep: Callable[[signal.Signals], Found]) -> list[psutil.Process]:
    """Sweep with SIGTERM, then with SIGKILL, until nothing is left; return what was found last if something may be.

    `sweep` sends the signal to everything that it finds. A grace period begins once this was done, however long the
    search took, and anew if SIGKILL goes to a process that was not there before: a busy machine may need many sweeps to
    catch what goes on in new processes.
    """
    left = list[psutil.Process]()
    for number, grace, most in ((signal.SIGTERM, TERM_GRACE, TERM_GRACE), (signal.SIGKILL, KILL_GRACE, HUNT)):
        start, deadline, inconclusive, seen = 0.0, 0.0, 0, set[psutil.Process]()
        while inconclusive < _INCONCLUSIVE:
            found = sweep(number)
            left = found.processes
            if not (left or found.missed):
                return []
            now = time.monotonic()
            start = start or now
            if not seen.issuperset(left):
                seen.update(left)
                deadline = min(now + grace, start + most)
            inconclusive = 0 if left else inconclusive + 1
            if left and now >= deadline:
                break
            wait_gone(left, deadline)
        else:
            return []
    return left


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
    tags, search = {row.tag for row in wanted}, Search()

    def sweep(number: signal.Signals) -> Found:
        mains = {main for row in wanted for main in _main(row)}

        def send(process: psutil.Process) -> None:
            with suppress(psutil.Error):
                process.send_signal(number)

        def belongs(process: psutil.Process) -> bool:
            return process in mains or not tags.isdisjoint(tags_of(process))

        return search.once(set(pids()) - {os.getpid()}, belongs, send)

    return tuple(process.pid for process in end_all(sweep)) if wanted else ()


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
        self._search = Search()

    def settle(self, grace: float) -> tuple[tuple[Leftover, ...], float]:
        """End what outlived the exited main process, after a grace period in seconds; return it and its CPU seconds.

        What goes on in new processes may have ended before it could be described. If nothing else is left, the first of
        them that is caught stands for all.
        """
        if not (rest := self._alive()):
            return (), 0.0
        wait_gone(rest, time.monotonic() + grace)
        rest = self._alive()
        cpu = _cpu(rest)
        leftovers = {process.pid: leftover(process, survived=False) for process in rest if not is_ending(process)}

        def on_catch(process: psutil.Process) -> None:
            if not leftovers and not is_ending(process):
                leftovers[process.pid] = leftover(process, survived=False)

        survivors = self._end(on_catch)
        return tuple((leftovers | {survivor.pid: survivor for survivor in survivors}).values()), cpu

    def end(self) -> tuple[tuple[Leftover, ...], float]:
        """End the whole tree with SIGTERM, later SIGKILL; return the survivors, and the CPU seconds before."""
        cpu = _cpu(self._alive())
        return self._end(), cpu

    def _end(self, on_catch: Callable[[psutil.Process], None] = lambda _: None) -> tuple[Leftover, ...]:
        return tuple(leftover(process, survived=True) for process in end_all(partial(self._sweep, on_catch)))

    def _alive(self) -> list[psutil.Process]:
        """Return the living processes of the tree, the main process included."""
        return self._search.thoroughly(self._found)

    def _sweep(self, on_catch: Callable[[psutil.Process], None], number: signal.Signals) -> Found:
        """Signal each process outside of the group of the main process when it is found, then that group at once.

        `on_catch` gets each process before it is signalled.
        """

        def send(process: psutil.Process) -> None:
            on_catch(process)
            with suppress(psutil.Error, OSError):
                if os.getpgid(process.pid) != self._pid:
                    process.send_signal(number)

        found = self._found(send)
        with suppress(OSError):
            os.killpg(self._pid, number)
        return found

    def _found(self, tell: Callable[[psutil.Process], None] = lambda _: None) -> Found:
        """Search every process younger than the run."""
        # what is in the session of another tree belongs to that: reading every environment would dominate the cost of
        # many parallel runs
        session_of = {
            pid: session for pid, session in younger(self._before) if session == self._pid or session not in LEADERS
        }

        def belongs(process: psutil.Process) -> bool:
            session = session_of[process.pid]
            if session == self._pid or (self._mark is not None and mark_of(process.pid) == self._mark):
                return True
            tags = tags_of(process)
            return self._tag in tags or (not tags and self._left(process, session))

        return self._search.once(session_of, belongs, tell)

    def _left(self, process: psutil.Process, session: int) -> bool:
        """Return whether this tree left an adopted process without its mark.

        A foreign mark is that of another turngate, which this tree may have started: it counts unless an older tree is
        still running. A process whose limit is our own was never started by a tree, such as another child of the
        program that this one replaced.
        """
        if self._mark is None or not is_adopted(process, session):
            return False
        with STARTING:
            others, known = LEADERS - {self._pid}, {*LIVE, mark_of(0), None}
        if mark_of(process.pid) in known or session in others:
            return False
        born = process.create_time()
        return not any(is_alive(leader) and start_time(leader) <= born for leader in others)


def _descendants(members: list[psutil.Process], others: Iterable[tuple[psutil.Process, int]]) -> list[psutil.Process]:
    """Return those of `others`, each with the id of its parent, that descend from `members`."""
    children: dict[int, list[psutil.Process]] = {}
    for process, parent in others if members else ():
        children.setdefault(parent, []).append(process)
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
