"""The processes that resumable runs keep for a while after asking, and when they give way."""

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, TypeAlias

import psutil

from turngate import Ended
from turngate_reference.server.orchestrator.run_inbox import RunInbox
from turngate_reference.server.sticky.events import Gone, Lost, Opened, StickyEvent, StickyRequest
from turngate_reference.server.sticky.host import StickyHost

log = logging.getLogger(__name__)

MEMORY_SECONDS = 10.0  # between two measurements of the waiting processes
_MEMORY = ""  # stands for all runs, as the key of that deadline

# what a turn waits for: events of its process, and a stop
TurnEvents: TypeAlias = queue.SimpleQueue[StickyEvent | Ended]


class _State(Enum):
    """What a process is doing: it runs a turn, waits for the next one, or is being ended."""

    BUSY = auto()
    WAITING = auto()
    ENDING = auto()


@dataclass(slots=True, eq=False)
class WarmProcess:
    """A process of a run; `opened` once it is ready, `since` is the clock's time when it began to wait."""

    run_id: str
    tag: str
    events: TurnEvents = field(default_factory=queue.SimpleQueue)
    opened: Opened | None = None
    since: float = 0.0
    state: _State = _State.BUSY
    is_gone: bool = False

    @property
    def note(self) -> dict[str, Any]:
        """What is stored about it, so that it can be ended even if the server dies."""
        opened = {"pid": self.opened.pid, "started_at": self.opened.started_at} if self.opened else {}
        return {"tag": self.tag} | opened


class WarmProcesses:
    """Holds at most one process per run. A run takes it for a turn; between turns it may be ended at any time.

    `memory` limits the resident memory of all waiting processes, in bytes (None: no limit). `gone` gets run and tag of
    each process that has ended, and may be called again after a sqlite3.Error; `freed` is called when there may be room
    for another process. `clock` is in seconds.
    """

    def __init__(
        self,
        host: StickyHost,
        gone: Callable[[str, str], None],
        freed: Callable[[], None],
        memory: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._on_gone, self._freed, self._memory, self._clock = host, gone, freed, memory, clock
        self._processes: dict[str, WarmProcess] = {}
        self._changed = threading.Condition()
        self._inbox = RunInbox(clock, lambda _run_id, _error: None)

    def open(self, run_id: str, request: StickyRequest) -> WarmProcess:
        """Start a process for a turn of a run that has none; ValueError if the server is closing."""
        process = WarmProcess(run_id, request.tag)

        def listener(event: StickyEvent) -> None:
            if isinstance(event, Opened):
                process.opened = event
            elif isinstance(event, Lost | Gone):
                with self._changed:
                    process.state = _State.ENDING
            process.events.put(event)
            if isinstance(event, Gone):
                self._inbox.put(run_id, lambda: self._remove(process))
                self._inbox.put(run_id, lambda: self._on_gone(run_id, process.tag))

        with self._changed:
            self._processes[run_id] = process
        try:
            self._host.open(run_id, request, listener)
        except ValueError:
            self._remove(process)
            raise
        return process

    def prompt(self, process: WarmProcess, text: str, *, checked: bool) -> None:
        """Run a turn; `checked`: only once the process has answered a request, which proves that it is alive."""
        self._host.prompt(process.run_id, text, checked=checked)

    def take(self, run_id: str) -> WarmProcess | None:
        """Take the process of a run for its next turn; None if it has none, once one that is being ended is gone."""
        with self._changed:
            process = self._processes.get(run_id)
            if process is None:
                return None
            self._changed.wait_for(lambda: process.state is _State.WAITING or process.is_gone)
            if process.is_gone:
                return None
            process.state = _State.BUSY
        self._inbox.put(run_id, lambda: self._inbox.drop_deadline(run_id))
        return process

    def keep(self, run_id: str, seconds: float) -> None:
        """Let the process of a run, if it has one, wait up to `seconds` for the next turn."""
        with self._changed:
            process = self._processes.get(run_id)
            if process is None or process.state is not _State.BUSY:
                waits = False
            else:
                waits, process.state, process.since = True, _State.WAITING, self._clock()
                self._changed.notify_all()
        if waits and process is not None:
            kept = process
            self._inbox.put(run_id, lambda: self._inbox.set_deadline(run_id, seconds, lambda: self._end_waiting(kept)))
            self._inbox.put(_MEMORY, self._limit_memory)
        else:
            self.finish(run_id)

    def finish(self, run_id: str) -> None:
        """End the process of a run, and return when it is gone."""
        with self._changed:
            process = self._processes.get(run_id)
        if process is not None:
            self._end(process)
            with self._changed:
                self._changed.wait_for(lambda: process.is_gone)

    def has_process(self, run_id: str) -> bool:
        """Whether a run has a process, even one that is being ended."""
        return run_id in self._processes

    def end(self, run_id: str) -> None:
        """End the process of a run if it is waiting."""
        with self._changed:
            process = self._processes.get(run_id)
        if process is not None:
            self._end_waiting(process)

    def has_room(self, queued: Collection[str], free: int) -> bool:
        """Whether the first of these runs may start, if turns leave `free` slots; makes waiting processes give way.

        A run that has a process needs no more room. Of the other runs, those that have waited longest give way first.
        """
        with self._changed:
            idle = [process for process in self._processes.values() if process.state is _State.WAITING]
            ending = sum(process.state is _State.ENDING for process in self._processes.values())
            ready = {process.run_id for process in idle}
            room = free - len(idle) - ending
            lacking = sum(run_id not in ready for run_id in queued) - room - ending
            idle.sort(key=lambda process: (process.run_id in queued, process.since))
            giving_way = idle[: max(0, min(lacking, len(idle)))]
        first = next(iter(queued), None)
        may_start = room > 0 or first in ready
        for process in giving_way:
            if process.run_id != first:
                self._end_waiting(process)
        return may_start

    def close(self) -> None:
        """End every process, and return when all are gone; no turn may be running."""
        with self._changed:
            processes = list(self._processes.values())
        for process in processes:
            self._end(process)
        with self._changed:
            self._changed.wait_for(lambda: not self._processes)
        self._inbox.close()

    def _end(self, process: WarmProcess) -> None:
        with self._changed:
            process.state = _State.ENDING
        self._host.end(process.run_id)

    def _end_waiting(self, process: WarmProcess) -> None:
        with self._changed:
            if process.state is not _State.WAITING:
                return
            process.state = _State.ENDING
        self._host.end(process.run_id)

    def _remove(self, process: WarmProcess) -> None:
        self._inbox.drop_deadline(process.run_id)
        with self._changed:
            if self._processes.get(process.run_id) is process:
                del self._processes[process.run_id]
            process.is_gone = True
            self._changed.notify_all()
        self._freed()

    def _limit_memory(self) -> None:
        """End those that have waited longest until the others fit the limit; look again later."""
        if self._memory is None:
            return
        with self._changed:
            idle = [process for process in self._processes.values() if process.state is _State.WAITING]
        idle.sort(key=lambda process: process.since, reverse=True)
        used = 0
        for process in idle:
            used += resident_memory(process.opened.pid) if process.opened else 0
            if used > self._memory:
                log.info("%s no longer keeps its process: the waiting ones use too much memory", process.run_id)
                self._end_waiting(process)
        if idle:
            self._inbox.set_deadline(_MEMORY, MEMORY_SECONDS, self._limit_memory)


def resident_memory(pid: int) -> int:
    """Return the resident memory of a process and all its descendants, in bytes; 0 if it is gone."""
    used = 0
    with suppress(psutil.Error):
        main = psutil.Process(pid)
        for process in (main, *main.children(recursive=True)):
            with suppress(psutil.Error):
                used += process.memory_info().rss
    return used
