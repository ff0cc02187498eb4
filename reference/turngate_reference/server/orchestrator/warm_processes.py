"""The processes that resumable runs keep for a while after asking, and when they give way."""

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeAlias

from turngate import Ended
from turngate_reference.server.orchestrator.process_memory import resident_memory
from turngate_reference.server.orchestrator.run_inbox import RunInbox
from turngate_reference.server.orchestrator.warm_slots import make_room
from turngate_reference.server.sticky.events import Gone, Lost, Opened, StickyEvent, StickyRequest
from turngate_reference.server.sticky.session import StickyHost
from turngate_reference.server.store.runs import ProcessNote

log = logging.getLogger(__name__)

MEMORY_SECONDS = 10.0  # between two measurements of the waiting processes
_MEMORY = ""  # stands for all runs, as the key of that deadline
_MIB = 2**20

# what a turn waits for: events of its process, and a stop
TurnEvents: TypeAlias = queue.SimpleQueue[StickyEvent | Ended]


class _State(Enum):
    """What a process is doing: it runs a turn, waits for the next one, or is being ended."""

    BUSY = auto()
    WAITING = auto()
    ENDING = auto()


@dataclass(slots=True, eq=False)
class WarmProcess:
    """A process of a run; `events` are those of its turn, `opened` once it is ready, `since` when it began to wait."""

    run_id: str
    tag: str
    events: TurnEvents = field(default_factory=queue.SimpleQueue)
    opened: Opened | None = None
    since: float = 0.0
    state: _State = _State.BUSY
    is_gone: bool = False

    @property
    def note(self) -> ProcessNote:
        """What is stored about it, so that it can be ended even if the server dies."""
        opened = self.opened
        return ProcessNote(self.tag, opened.pid, opened.started_at) if opened else ProcessNote(self.tag)


class WarmProcesses:
    """Holds at most one process per run, in `host`. A run takes it for a turn; between turns it may end at any time.

    `memory` limits the resident memory of all waiting processes, in bytes (None: no limit). `gone` gets run and tag of
    each process that has ended; `has_reply` says whether a run waits for its next turn, and its process therefore
    doesn't end with its time. Both may be called again after a sqlite3.Error. `freed` is called when there may be room
    for another process. `clock` is in seconds.
    """

    def __init__(
        self,
        host: StickyHost,
        gone: Callable[[str, str], None],
        freed: Callable[[], None],
        memory: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        has_reply: Callable[[str], bool] = lambda _run_id: False,
    ) -> None:
        self.host, self._on_gone, self._freed, self._memory, self._clock = host, gone, freed, memory, clock
        self._has_reply = has_reply
        self._processes: dict[str, WarmProcess] = {}
        self._changed = threading.Condition()
        self._inbox = RunInbox(clock, lambda _run_id, _error: None)
        self._is_closing = self._has_warned = False

    def open(self, run_id: str, request: StickyRequest) -> WarmProcess:
        """Start a process for a turn of a run that has none; ValueError if the server is closing."""
        process = WarmProcess(run_id, request.tag)
        with self._changed:
            self._processes[run_id] = process
        try:
            self.host.open(run_id, request, lambda event: self._heard(process, event))
        except BaseException:
            self._remove(process)
            raise
        return process

    def take(self, run_id: str) -> WarmProcess | None:
        """Take the process of a run for its next turn; None if it has none, once one that is being ended is gone."""
        with self._changed:
            process = self._processes.get(run_id)
            if process is None:
                return None
            self._changed.wait_for(lambda: process.state is _State.WAITING or process.is_gone)
            if process.is_gone:
                return None
            # what it said while it waited belongs to no turn
            process.state, process.events = _State.BUSY, queue.SimpleQueue()
        self._inbox.put(run_id, lambda: self._inbox.drop_deadline(run_id))
        return process

    def keep(self, run_id: str, seconds: float) -> None:
        """Let the process of a run, if it has one, wait up to `seconds` for the next turn."""
        with self._changed:
            process = self._processes.get(run_id)
            if process is None:
                return
            waits = process.state is _State.BUSY and not self._is_closing
            if waits:
                process.state, process.since = _State.WAITING, self._clock()
                self._changed.notify_all()
        if waits:
            kept = process
            self._inbox.put(run_id, lambda: self._inbox.set_deadline(run_id, seconds, lambda: self._expire(kept)))
            self._inbox.put(_MEMORY, self._limit_memory)
        else:
            self.finish(run_id)

    def finish(self, run_id: str) -> None:
        """End the process of a run, if it has one, and return when it is gone."""
        with self._changed:
            process = self._processes.get(run_id)
            if process is not None:
                process.state = _State.ENDING
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
            self._changed.wait_for(lambda: process.state is not _State.BUSY, patience)
        self._end_waiting(process)
        with self._changed:
            self._changed.wait_for(lambda: process.state is _State.BUSY or process.is_gone)

    def has_process(self, run_id: str) -> bool:
        """Whether a run has a process, even one that is being ended."""
        return run_id in self._processes

    def note(self, run_id: str) -> ProcessNote | None:
        """Return the note of the process of a run, even of one that is being ended; None if it has none."""
        with self._changed:
            process = self._processes.get(run_id)
        return process.note if process else None

    def end(self, run_id: str) -> None:
        """End the process of a run if it is waiting."""
        with self._changed:
            process = self._processes.get(run_id)
        if process is not None:
            self._end_waiting(process)

    def has_room(self, queued: Sequence[str], free: int, held: Collection[str]) -> bool:
        """Whether the first of these runs may start; makes waiting processes give way, as `make_room` decides.

        `free` slots are left by turns, and the runs `held` hold the others, which their processes share.
        """
        with self._changed:
            counted = [process for process in self._processes.values() if process.run_id not in held]
        waiting = sorted(
            (process for process in counted if process.state is _State.WAITING), key=lambda process: process.since
        )
        ending = sum(process.state is _State.ENDING for process in counted)
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
        """End every process, and return when all are gone; no turn may be running.

        Notes about them stay in the store, which may be locked: the next server looks for what they name.
        """
        self.end_all()
        for run_id in list(self._processes):
            self.finish(run_id)
        self._inbox.close()

    def _heard(self, process: WarmProcess, event: StickyEvent) -> None:
        """Handle an event of a process, on the thread of the host."""
        with self._changed:
            if isinstance(event, Opened):
                process.opened = event
            elif isinstance(event, Lost | Gone):
                process.state = _State.ENDING
                self._changed.notify_all()
            if process.state is not _State.WAITING:  # nobody would read it, and it may say a lot
                process.events.put(event)
        if isinstance(event, Gone):
            self._remove(process)
            self._inbox.put(process.run_id, lambda: self._forget(process))

    def _expire(self, process: WarmProcess) -> None:
        """End a process after its time, unless a reply has come within it."""
        if not self._has_reply(process.run_id):
            self._end_waiting(process)

    def _end_waiting(self, process: WarmProcess) -> None:
        with self._changed:
            if process.state is not _State.WAITING:
                return
            process.state = _State.ENDING
            self._changed.notify_all()
        self.host.end(process.run_id)

    def _remove(self, process: WarmProcess) -> None:
        """Take note that a process is gone; at once, since turns, slots and the end of the server wait for that."""
        # first, since the run's next process may set a deadline
        self._inbox.put(process.run_id, lambda: self._inbox.drop_deadline(process.run_id))
        with self._changed:
            if self._processes.get(process.run_id) is process:
                del self._processes[process.run_id]
            process.is_gone = True
            self._changed.notify_all()
        self._freed()

    def _forget(self, process: WarmProcess) -> None:
        if not self._is_closing:
            self._on_gone(process.run_id, process.tag)

    def _limit_memory(self) -> None:
        """End those that have waited longest until the others fit the limit; look again later."""
        if self._memory is None:
            return
        with self._changed:
            idle = [process for process in self._processes.values() if process.state is _State.WAITING]
        idle.sort(key=lambda process: process.since, reverse=True)
        used = 0
        for process in idle:
            size = resident_memory(process.opened.pid) if process.opened else 0
            used += size
            if size > self._memory:
                self._warn(size)
            if used > self._memory:
                log.info("%s no longer keeps its process: the waiting ones use too much memory", process.run_id)
                self._end_waiting(process)
        if idle:
            self._inbox.set_deadline(_MEMORY, MEMORY_SECONDS, self._limit_memory)

    def _warn(self, size: int) -> None:
        """Say once that a single process exceeds the limit, because no run may ever keep one then."""
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "a kept process uses %d MiB, more than the %d MiB of --warm-memory: processes of this size never wait",
                -(-size // _MIB),
                (self._memory or 0) // _MIB,
            )
