"""The kept processes of a server, at most one per run, and their only inbox: deadlines, waits and losses.

Who may touch what: a process belongs either to the thread of a turn (`in_turn`), or to the thread of the inbox.
`open` and `take` give it to the caller's turn, and `keep` gives it back. Its events come on the thread of the host,
which only notes them here and passes them on to the owner: to the turn through the queue `events`, or to the inbox.
Deadlines are all kept by the inbox; that of a turn only puts a `TooLate` into `events`. Whoever owns a process when it
is gone settles that with `KeptLosses`, and drops it; until then it stays here, so that the next turn of a run that has
got a reply in the meantime still finds out why its process is gone. Fields of a process are changed under the lock,
but for `limit`, which is the turn's.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from typing import TypeAlias

import psutil
from msgspec import Struct, field

from turngate import Ended
from turngate_reference.engine.attempt import InstalledEngine
from turngate_reference.server.orchestrator.kept_loss import KeptLosses, Later, Policy, at_once
from turngate_reference.server.orchestrator.run_inbox import RunInbox
from turngate_reference.server.store.runs import ProcessNote
from turngate_reference.server.transports.events import Gone, Lost, Opened, OpenRequest, ProcessEvent, TurnEnded
from turngate_reference.server.transports.host import ProcessHost

log = logging.getLogger(__name__)

MEMORY_SECONDS = 10.0  # between two measurements of the waiting processes
_MEMORY = ""  # stands for all runs, as the key of that deadline
_MIB = 2**20


class SlotCheck(Struct, frozen=True):
    """Whether the first queued run may start now, and the runs whose processes must end so that others can start."""

    may_start: bool
    giving_way: tuple[str, ...]


def make_room(queued: Sequence[str], free: int, waiting: Sequence[str], ending: int) -> SlotCheck:
    """Decide for the runs `queued`, in order, if turns leave `free` slots.

    `waiting` are the runs whose processes wait, the longest wait first; `ending` processes are being ended. Neither
    includes the processes of runs that hold a slot. A queued run whose process waits needs no further slot. Those that
    have waited longest give way first, but the processes of queued runs last.
    """
    starting = queued[:free]
    others = [run_id for run_id in waiting if run_id not in starting]
    others.sort(key=lambda run_id: run_id in queued)
    too_many = max(0, len(others) + len(starting) - free)
    is_ready = bool(starting) and (starting[0] in waiting or free > len(waiting) + ending)
    return SlotCheck(is_ready, tuple(others[:too_many]))


def beyond_memory(sizes: Iterable[tuple[str, int]], limit: int) -> list[str]:
    """Return the runs whose processes don't fit a limit; `sizes` has each run's bytes, the shortest wait first."""
    used, beyond = 0, []
    for run_id, size in sizes:
        used += size
        if used > limit:
            beyond.append(run_id)
    return beyond


def resident_memory(pid: int) -> int:
    """Return the resident memory of a process and all its descendants, in bytes.

    What ends meanwhile, or can't be read, counts as 0.
    """
    used = 0
    with suppress(psutil.Error):
        main = psutil.Process(pid)
        for process in (main, *main.children(recursive=True)):
            with suppress(psutil.Error):
                used += process.memory_info().rss
    return used


class Replied(Struct, frozen=True):
    """The user has answered a request for permission."""

    request_id: str
    option: str


class TooLate(Struct, frozen=True, eq=False):
    """A deadline of a turn has passed; void unless it is the `limit` of the process."""


# what a turn waits for: events of its process, a decision of the user, its deadline, and a stop
TurnEvent: TypeAlias = ProcessEvent | Replied | TooLate | Ended


class KeptProcess(Struct, eq=False):
    """A process of a run. `in_turn`: a turn uses it; `is_ending`: it is lost, or is being ended.

    `is_unwanted`: it must not wait for another turn. `since` is the clock's time when its turn or its wait began.
    `limit` is the deadline of its turn. `lost` says why it was lost, and stays None if turngate has ended it.
    """

    run_id: str
    tag: str
    policy: Policy
    engine: InstalledEngine
    events: queue.SimpleQueue[TurnEvent] = field(default_factory=queue.SimpleQueue)
    opened: Opened | None = None
    session_id: str | None = None
    since: float = 0.0
    limit: TooLate | None = None
    in_turn: bool = True
    is_ending: bool = False
    is_unwanted: bool = False
    is_gone: bool = False
    lost: Lost | None = None
    exit_code: int | None = None

    @property
    def waits(self) -> bool:
        """Whether it waits for its next turn."""
        return not (self.in_turn or self.is_ending)

    @property
    def note(self) -> ProcessNote:
        """What is stored about it, so that it can be ended even if the server dies."""
        opened = self.opened
        if opened is None:
            return ProcessNote(self.tag)
        return ProcessNote(self.tag, opened.pid, opened.started_at, self.session_id)


class KeptProcesses:
    """Holds the kept processes, in `host`; between turns, a warm one may end at any time.

    `memory` limits the resident memory of all waiting warm processes, in bytes (None: no limit). `release` frees the
    slot that was claimed with a tag, and `freed` is called when there may be room for another process. `clock` is in
    seconds, independent of changes of the wall clock.
    """

    def __init__(
        self,
        host: ProcessHost,
        losses: KeptLosses,
        release: Callable[[str], None],
        freed: Callable[[], None],
        memory: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.host, self.losses, self.clock = host, losses, clock
        self._release, self._freed, self._memory = release, freed, memory
        self._processes: dict[str, KeptProcess] = {}
        self._changed = threading.Condition()
        self._inbox = RunInbox(clock, lambda run_id, _error: self.end(run_id))
        self._is_closing = self._has_warned = False

    def open(self, run_id: str, policy: Policy, engine: InstalledEngine, request: OpenRequest) -> KeptProcess:
        """Start a process for a turn of a run that has none; ValueError if the server is closing."""
        process = KeptProcess(run_id, request.tag, policy, engine, since=self.clock())
        with self._changed:
            self._processes[run_id] = process
        try:
            self.host.open(run_id, request, lambda event: self._receive(process, event))
        except BaseException:
            with self._changed:
                process.is_ending = process.is_gone = True
            self.drop(process)
            raise
        return process

    def take(self, run_id: str) -> KeptProcess | None:
        """Take the process of a run for its next turn; None if it has none.

        One that is being ended is gone first. If its run can't go on without it, the turn gets it all the same, and
        then its loss.
        """
        with self._changed:
            process = self._processes.get(run_id)
            if process is None:
                return None
            self._changed.wait_for(lambda: process.waits or process.is_gone)
            if process.is_gone and process.policy.resumes:
                return None
            process.in_turn, process.since = True, self.clock()
            self._changed.notify_all()
        return process

    def keep(self, process: KeptProcess, seconds: int) -> bool:
        """Let the process of a turn wait up to `seconds` for the next one; False if it must end instead."""
        with self._changed:
            if process.is_ending or process.is_unwanted or self._is_closing:
                return False
            process.in_turn, process.since = False, self.clock()
            process.events = queue.SimpleQueue()  # what came after the turn belongs to no other
            self._changed.notify_all()
        run_id = process.run_id
        self._inbox.put(
            run_id, lambda: self._inbox.set_deadline(run_id, seconds, lambda: self._expire(process, seconds))
        )
        if self._memory is not None and process.policy.resumes:
            self._inbox.put(_MEMORY, self._limit_memory)
        return True

    def limit(self, process: KeptProcess, seconds: float) -> None:
        """Set the deadline of a turn, from now; it replaces the last one."""
        process.limit = late = TooLate()
        too_late, run_id = process.events, process.run_id
        self._inbox.put(run_id, lambda: self._inbox.set_deadline(run_id, seconds, lambda: too_late.put(late)))

    def replied(self, run_id: str, request_id: str, option: str) -> None:
        """Pass the user's decision on to the turn that has asked for it."""
        with self._changed:
            if process := self._processes.get(run_id):
                process.events.put(Replied(request_id, option))

    def finish(self, run_id: str) -> None:
        """End the process of a run, if it has one, and return when it is gone."""
        with self._changed:
            process = self._processes.get(run_id)
            if process is not None:
                process.is_ending = True
                self._changed.notify_all()
        if process is not None:
            self.host.end(run_id)
            with self._changed:
                self._changed.wait_for(lambda: process.is_gone)

    def finish_waiting(self, run_id: str, patience: float) -> None:
        """End the process of a run between two turns, and return when it is gone.

        A process that runs a turn is left alone if the turn doesn't end within `patience` seconds.
        """
        with self._changed:
            process = self._processes.get(run_id)
            if process is None:
                return
            self._changed.wait_for(lambda: not process.in_turn or process.is_ending, patience)
        self._end_waiting(process)
        with self._changed:
            self._changed.wait_for(lambda: process.is_gone or (process.in_turn and not process.is_ending))

    def find(self, run_id: str) -> KeptProcess | None:
        """Return the process of a run, even one that is gone and not dropped yet; None if it has none."""
        with self._changed:
            return self._processes.get(run_id)

    def has_process(self, run_id: str) -> bool:
        """Whether a run has a process, even one that is being ended."""
        process = self.find(run_id)
        return process is not None and not process.is_gone

    def note(self, run_id: str) -> ProcessNote | None:
        """Return the note of the process of a run, even of one that is being ended; None if it has none."""
        process = self.find(run_id)
        return process.note if process is not None and not process.is_gone else None

    def seconds(self, run_id: str) -> float:
        """Return how long the turn of a run has lasted in its process; 0 without a process."""
        process = self.find(run_id)
        return self.clock() - process.since if process else 0.0

    def end(self, run_id: str) -> None:
        """End the process of a run: at once if it waits, otherwise after its turn."""
        with self._changed:
            process = self._processes.get(run_id)
            if process is not None:
                process.is_unwanted = True
        if process is not None:
            self._end_waiting(process)

    def drop(self, process: KeptProcess) -> None:
        """Forget a process that is gone."""
        with self._changed:
            if self._processes.get(process.run_id) is process:
                del self._processes[process.run_id]
            self._changed.notify_all()

    def has_room(self, queued: Sequence[str], free: int, held: Collection[str]) -> bool:
        """Whether the first of these runs may start; makes waiting processes give way, as `make_room` decides.

        `free` slots are left by turns, and the runs `held` hold the others, which their processes share.
        """
        with self._changed:
            counted = [
                process for process in self._processes.values() if process.run_id not in held and process.policy.resumes
            ]
            waiting = sorted((process for process in counted if process.waits), key=lambda process: process.since)
            ending = sum(process.is_ending and not process.is_gone for process in counted)
        room = make_room(queued, free, [process.run_id for process in waiting], ending)
        for process in waiting:
            if process.run_id in room.giving_way:
                self._end_waiting(process)
        return room.may_start

    def end_all(self) -> None:
        """End every process that waits, and from now on each one after its turn; returns at once."""
        with self._changed:
            self._is_closing = True
            processes = list(self._processes.values())
        for process in processes:
            self._end_waiting(process)

    def close(self) -> None:
        """End every process, settle what the losses mean for their runs, and return; no turn may be running.

        Notes about warm ones stay in the store, which may be locked: the next server looks for what they name.
        """
        self.end_all()
        for run_id in list(self._processes):
            self.finish(run_id)
        self.host.close()
        self._inbox.close()

    def _receive(self, process: KeptProcess, event: ProcessEvent) -> None:
        """Handle an event of a process, on the thread of the host."""
        if isinstance(event, Gone):
            # first, since the run's next process may set a deadline
            self._inbox.put(process.run_id, lambda: self._inbox.drop_deadline(process.run_id))
        with self._changed:
            match event:
                case Opened():
                    process.opened, process.session_id = event, event.session_id
                case TurnEnded():
                    process.session_id = event.session_id
                case Lost():
                    process.is_ending, process.lost = True, event
                    self._changed.notify_all()
                case Gone():
                    process.is_ending = process.is_gone = True
                    process.exit_code = event.exit_code
                    self._changed.notify_all()
            if not process.waits:  # nobody would read it, and it may say a lot
                process.events.put(event)
            is_ours = process.is_gone and not process.in_turn
        if is_ours:
            self._inbox.put(process.run_id, lambda: self._settle(process))
        if isinstance(event, Gone):
            self._freed()

    def is_settled(self, process: KeptProcess, later: Later = at_once) -> bool:
        """Write that a process is gone, and drop it; False if a reply has begun a turn that will do so.

        sqlite3.Error if it must be tried again.
        """
        lost, exit_code = process.lost, process.exit_code
        if not self.losses.gone(process.policy, process.run_id, process.tag, lost, exit_code, later):
            return False
        self.drop(process)
        return True

    def _settle(self, process: KeptProcess) -> None:
        """Settle the loss of a process that waited, and free the slot that it held."""
        if self._is_closing and process.policy.resumes:
            self.drop(process)
        elif self.is_settled(process, self._later(process)) and not process.policy.resumes:
            self._release(process.tag)

    def _expire(self, process: KeptProcess, seconds: int) -> None:
        """End a process after its time, unless a reply has come within it."""
        if process.waits and self.losses.is_over(process.policy, process.run_id, seconds, self._later(process)):
            self._end_waiting(process)

    def _later(self, process: KeptProcess) -> Later:
        """Return what performs an action after those that are due now: many waits may end at once."""
        return lambda action: self._inbox.put(process.run_id, action)

    def _end_waiting(self, process: KeptProcess) -> None:
        with self._changed:
            if not process.waits:
                return
            process.is_ending = True
            self._changed.notify_all()
        self.host.end(process.run_id)

    def _limit_memory(self) -> None:
        """End those that have waited longest until the others fit the limit; look again later."""
        limit = self._memory or 0
        with self._changed:
            idle = {p.run_id: p for p in self._processes.values() if p.waits and p.policy.resumes}
        newest_first = sorted(idle.values(), key=lambda process: process.since, reverse=True)
        sizes = [(p.run_id, resident_memory(p.opened.pid) if p.opened else 0) for p in newest_first]
        for _, size in sizes:
            if size > limit:
                self._warn(size, limit)
        for run_id in beyond_memory(sizes, limit):
            log.info("%s no longer keeps its process: the waiting ones use too much memory", run_id)
            self._end_waiting(idle[run_id])
        if idle:
            self._inbox.set_deadline(_MEMORY, MEMORY_SECONDS, self._limit_memory)

    def _warn(self, size: int, limit: int) -> None:
        """Say once that a single process exceeds the limit, because no run may ever keep one then."""
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "a kept process uses %d MiB, more than the %d MiB of --warm-memory: processes of this size never wait",
                -(-size // _MIB),
                limit // _MIB,
            )
