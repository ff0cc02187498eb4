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
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct, field

from turngate import Ended
from turngate_reference.engine.attempt import InstalledEngine
from turngate_reference.server.orchestrator.kept_loss import KeptLosses, Later, at_once
from turngate_reference.server.orchestrator.run_inbox import RunInbox
from turngate_reference.server.store.runs import ProcessNote
from turngate_reference.server.transports.events import Gone, Lost, Opened, OpenRequest, ProcessEvent, TurnEnded
from turngate_reference.server.transports.host import ProcessHost

log = logging.getLogger(__name__)


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
    """Holds the kept processes, in `host`.

    `release` frees the slot that was claimed with a tag. `clock` is in seconds, independent of changes of the wall
    clock.
    """

    def __init__(
        self,
        host: ProcessHost,
        losses: KeptLosses,
        release: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.host, self.losses, self.clock = host, losses, clock
        self._release = release
        self._processes: dict[str, KeptProcess] = {}
        self._changed = threading.Condition()
        self._inbox = RunInbox(clock, lambda run_id, _error: self.end(run_id))
        self._is_closing = False

    def open(self, run_id: str, engine: InstalledEngine, request: OpenRequest) -> KeptProcess:
        """Start a process for a turn of a run that has none; ValueError if the server is closing."""
        process = KeptProcess(run_id, request.tag, engine, since=self.clock())
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

        One that is being ended is gone first, and the turn learns of its loss.
        """
        with self._changed:
            process = self._processes.get(run_id)
            if process is None:
                return None
            self._changed.wait_for(lambda: process.waits or process.is_gone)
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

    def find(self, run_id: str) -> KeptProcess | None:
        """Return the process of a run, even one that is gone and not dropped yet; None if it has none."""
        with self._changed:
            return self._processes.get(run_id)

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

    def end_all(self) -> None:
        """End every process that waits, and from now on each one after its turn; returns at once."""
        with self._changed:
            self._is_closing = True
            processes = list(self._processes.values())
        for process in processes:
            self._end_waiting(process)

    def close(self) -> None:
        """End every process, settle what the losses mean for their runs, and return; no turn may be running."""
        self.end_all()
        for run_id in list(self._processes):
            self.finish(run_id)
        self.host.close()
        self._inbox.close()

    def _receive(self, process: KeptProcess, event: ProcessEvent) -> None:
        """Handle an event of a process, on the thread of the host."""
        if isinstance(event, Gone):
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

    def is_settled(self, process: KeptProcess, later: Later = at_once) -> bool:
        """Write that a process is gone, and drop it; False if a reply has begun a turn that will do so.

        sqlite3.Error if it must be tried again.
        """
        if not self.losses.gone(process.run_id, process.lost, process.exit_code, later):
            return False
        self.drop(process)
        return True

    def _settle(self, process: KeptProcess) -> None:
        """Settle the loss of a process that waited, and free the slot that it held."""
        if self.is_settled(process, self._later(process)):
            self._release(process.tag)

    def _expire(self, process: KeptProcess, seconds: int) -> None:
        """End a process after its time, unless a reply has come within it."""
        if process.waits and self.losses.is_over(process.run_id, seconds, self._later(process)):
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
