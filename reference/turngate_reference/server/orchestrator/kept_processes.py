"""The kept processes of a server, at most one per run: carries out what `kept_states` says.

Events come from the threads of the host, of turns and of callers. Each is taken under the lock, so that the events of a
process have an order, and what only passes something on is done there. What writes to the store is left to the owner:
to a turn through the queue `orders`, else to the one thread of this module, which also keeps the deadlines.
"""

import logging
import math
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct, field

from turngate_reference.engine.attempt import InstalledEngine
from turngate_reference.server.orchestrator import transitions
from turngate_reference.server.orchestrator.decide import Decision
from turngate_reference.server.orchestrator.kept_loss import fails_waiting
from turngate_reference.server.orchestrator.kept_states import (
    BETWEEN_TURNS,
    GONE,
    IN_TURN,
    Decided,
    Effect,
    KeptCause,
    KeptEvent,
    Life,
    step,
)
from turngate_reference.server.orchestrator.run_files import Records
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import RETRY_SECONDS, Store
from turngate_reference.server.store.runs import ProcessNote
from turngate_reference.server.transports.events import OpenRequest
from turngate_reference.server.transports.host import ProcessHost
from turngate_reference.states import State

log = logging.getLogger(__name__)

Order: TypeAlias = tuple[Effect, KeptEvent]


class KeptProcess(Struct, eq=False):
    """A process of a run. `orders` is what its turn must do, `text` the prompt of the turn.

    `seconds` is how long a turn or a wait may last. `began`, `due` and `retry` are times of the clock: when the turn
    began, its deadline, and when the thread of the kept processes does `todo`, its own order.
    """

    run_id: str
    tag: str
    engine: InstalledEngine
    seconds: int
    text: str
    began: float
    due: float
    life: Life = Life()
    orders: queue.SimpleQueue[Order] = field(default_factory=queue.SimpleQueue)
    todo: Order | None = None
    retry: float = -math.inf

    @property
    def note(self) -> ProcessNote:
        """What is stored about it, so that it can be ended even if the server dies."""
        opened = self.life.opened
        if opened is None:
            return ProcessNote(self.tag)
        return ProcessNote(self.tag, opened.pid, opened.started_at, self.life.session_id)


class KeptProcesses:
    """Holds the kept processes, in `host`.

    `release` frees the slot that was claimed with a tag. `clock` is in seconds, independent of changes of the wall
    clock.
    """

    def __init__(
        self,
        host: ProcessHost,
        store: Store,
        records: Records,
        release: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.host, self.clock = host, clock
        self._store, self._records, self._release = store, records, release
        self._processes: dict[str, KeptProcess] = {}
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._work, name="turngate-kept-owner", daemon=True)
        self._thread.start()

    def open(self, run_id: str, engine: InstalledEngine, request: OpenRequest, text: str, seconds: int) -> KeptProcess:
        """Start a process for the first turn of a run; ValueError if the server is closing."""
        now = self.clock()
        process = KeptProcess(run_id, request.tag, engine, seconds, text, now, now + seconds)
        with self._changed:  # nobody ends it before the host knows of it
            self.host.open(run_id, request, lambda event: self._take(process, event))
            self._processes[run_id] = process
            self._changed.notify_all()
        return process

    def begin_turn(self, run_id: str, text: str) -> KeptProcess | None:
        """Begin a turn of a run in its process, which may be gone by now; None if it has none.

        This waits until the turn before it has left the process.
        """
        with self._changed:
            process = self._processes.get(run_id)
            if process is None:
                return None
            self._changed.wait_for(lambda: process.life.state not in IN_TURN)
            if process.life.state not in BETWEEN_TURNS:
                return None
            process.text, process.began, process.todo = text, self.clock(), None
            process.orders = queue.SimpleQueue()
            self._take(process, KeptCause.TURN_BEGUN)
        return process

    def tell(self, run_id: str, event: KeptEvent) -> None:
        """Tell the process of a run, if it has one, what has happened; returns at once."""
        with self._changed:
            if process := self._processes.get(run_id):
                self._take(process, event)

    def end(self, run_id: str) -> None:
        """End the process of a run, if it has one; returns at once."""
        self.tell(run_id, KeptCause.END)

    def end_wholly(self, run_id: str) -> None:
        """End the process of a run, if it has one, and return when it is gone."""
        self.end(run_id)
        with self._changed:
            if process := self._processes.get(run_id):
                self._changed.wait_for(lambda: process.life.state in GONE)

    def find(self, run_id: str) -> KeptProcess | None:
        """Return the process of a run, even one that is gone but not settled; None if it has none."""
        with self._changed:
            return self._processes.get(run_id)

    def note(self, run_id: str) -> ProcessNote | None:
        """Return the note of the process of a run, even of one that is being ended; None if it has none."""
        process = self.find(run_id)
        return process.note if process is not None and process.life.state not in GONE else None

    def fail_waiting(self, process: KeptProcess, decision: Decision) -> bool:
        """Fail the run of a process if it waits; False: a reply was first. sqlite3.Error: try again later.

        If it waits for a decision, its turn ends, too. If the process is gone, that is stored as well.
        """
        run_id, gone = process.run_id, process.life.gone
        with self._store.writing() as connection:
            run = runs.get(connection, run_id)
            if run.state is State.WAITING_USER:
                transitions.end_run(connection, run, decision, self.clock() - process.began)
                # before the commit: whoever reads the new state finds the record
                self._records.keep(run, decision.state, run.session)
            if gone is not None and run.state is not State.RUNNING:
                transitions.end_process(connection, run_id, gone.exit_code)
        return run.state is not State.RUNNING

    def seconds(self, run_id: str) -> float:
        """Return how long ago the last turn began in the process of a run; 0 without a process."""
        process = self.find(run_id)
        return self.clock() - process.began if process else 0.0

    def end_all(self) -> None:
        """End every process; returns at once."""
        with self._changed:
            for run_id in list(self._processes):
                self.end(run_id)

    def close(self) -> None:
        """End every process, settle what can be settled now, and return; no turn may be running."""
        self.end_all()
        self.host.close()
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()

    def _take(self, process: KeptProcess, event: KeptEvent) -> None:
        """Take an event of a process; the host's events come here on its thread."""
        with self._changed:
            process.life, effects = step(process.life, event)
            for effect in effects:
                self._carry_out(process, effect, event)
            if effects != (Effect.NOTE,):
                self._changed.notify_all()

    def _carry_out(self, process: KeptProcess, effect: Effect, event: KeptEvent) -> None:
        """Pass on what must be done; nothing here waits."""
        match effect, event:
            case Effect.PROMPT, _:
                self.host.prompt(process.run_id, process.text)
            case Effect.DECIDE, Decided(request_id, option):
                self.host.decide(process.run_id, request_id, option)
            case Effect.END, _:
                self.host.end(process.run_id)
            case Effect.LIMIT, _:
                process.due = self.clock() + process.seconds
            case Effect.RELEASE, _:
                del self._processes[process.run_id]
                self._release(process.tag)
            case _ if process.life.state in IN_TURN:
                process.orders.put((effect, event))
            case _:
                process.todo, process.retry = (effect, event), -math.inf

    def _work(self) -> None:
        """Do what is to be done for processes that no turn uses, until the server closes."""
        while order := self._next():
            process, todo = order
            answer = self._answer(process)
            with self._changed:
                if process.todo is todo:
                    if answer is None and not self._is_closing:
                        process.retry = self.clock() + RETRY_SECONDS
                    else:
                        process.todo = None
                        self._take(process, answer or KeptCause.RUN_GOES_ON)
                self._changed.notify_all()

    def _answer(self, process: KeptProcess) -> KeptCause | None:
        """Ask the store whether the run of a process waits, and fail it then; None: it must be asked again."""
        try:
            if not self.fail_waiting(process, fails_waiting(process.life.end or KeptCause.TOO_LATE, process.seconds)):
                return KeptCause.RUN_GOES_ON
        except sqlite3.Error:
            log.exception("can't write to the store yet")
            return None
        except Exception:
            log.exception("%s failed because of an error in turngate", process.run_id)
        return KeptCause.RUN_TOLD  # also after an error of ours, since nobody else will free the slot

    def _next(self) -> tuple[KeptProcess, Order] | None:
        """Wait for the next order of this thread; None: the server closes, and there is none."""
        with self._changed:
            while True:
                now, processes = self.clock(), list(self._processes.values())
                for process in processes:
                    if process.due <= now:
                        process.due = math.inf
                        self._take(process, KeptCause.TOO_LATE)
                for process in processes:
                    if process.todo and process.retry <= now:
                        return process, process.todo
                if self._is_closing:
                    return None
                times = [time for each in processes for time in (each.due, each.retry if each.todo else math.inf)]
                first = min(times, default=math.inf)
                self._changed.wait(None if math.isinf(first) else first - now)
