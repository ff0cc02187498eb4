"""The owner of the runs that hold a slot: one thread, which takes what happens, and does what the machines order.

Whoever knows that something has happened posts it, and never waits: requests of callers, threads that work for a turn,
the host of the kept processes. The owner takes one thing after the other. It starts in threads what takes long, passes
on at once what can be passed on, and writes all else to the store, for each run in order. While the store can't be
written, it tries again from time to time, and goes on with what needs no store. `drain` does all that is due. The
thread only waits in between, so a test needs none.
"""

import logging
import math
import queue
import threading
import time
import uuid
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial

from turngate import Stop
from turngate_reference.server.orchestrator import transitions
from turngate_reference.server.orchestrator.headless import TurnWork
from turngate_reference.server.orchestrator.kept_states import Decided, KeptCause
from turngate_reference.server.orchestrator.live_run import LiveRun, Means
from turngate_reference.server.orchestrator.run_files import Records
from turngate_reference.server.orchestrator.turn_states import TurnCause
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.runs import Run
from turngate_reference.server.transports.events import Host

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
CHORE_SECONDS = 1.0


def in_thread(name: str, job: Callable[[], None]) -> None:
    """Do a job in a thread."""
    threading.Thread(target=job, name=name, daemon=True).start()


class Owner:
    """Owns the runs that hold one of `slots` slots, and claims those in the queue; `work` does what takes long.

    `unsettled` picks, from the names of engines, those whose interactive runs must not start yet; call `kick` when that
    changes. `observe` gets engine, outcome and seconds of each turn. `gives_up` says whether something is not tried
    again after an error. `chore` is done each second.
    """

    def __init__(
        self,
        store: Store,
        records: Records,
        work: TurnWork,
        host: Host | None = None,
        slots: int = 0,
        *,
        unsettled: Callable[[Collection[str]], Collection[str]] = lambda _engines: (),
        observe: Callable[[str, str, float], None] = lambda _engine, _outcome, _seconds: None,
        gives_up: Callable[[Exception], bool] = lambda _error: False,
        chore: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        start_thread: Callable[[str, Callable[[], None]], None] = in_thread,
    ) -> None:
        self.slots, self._store, self._clock = slots, store, clock
        self._means = Means(
            store,
            records,
            work,
            start_thread,
            host or Host(),
            clock,
            post=self.post,
            release=self._release,
            gives_up=self._is_given_up,
            observe=observe,
        )
        self._unsettled, self._gives_up, self._chore = unsettled, gives_up, chore
        self._happened: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        self._live: dict[str, LiveRun] = {}
        self._may_claim, self._is_closing = slots > 0, False
        self._retry, self._next_chore = -math.inf, clock() + CHORE_SECONDS
        self._thread = threading.Thread(target=self.run, name="turngate-owner", daemon=True)

    @property
    def held(self) -> int:
        """How many slots are held now."""
        return len(self._live)

    @property
    def works(self) -> bool:
        """Whether the queue is being processed."""
        return self._thread.is_alive() and not self._is_closing

    def start(self) -> None:
        """Start the thread, and process the queue."""
        self._thread.start()

    def close(self) -> None:
        """Claim nothing more, end all turns and kept processes, and return when all slots are free."""
        self.post(self._close)
        if self._thread.ident is not None:
            self._thread.join()

    def post(self, happened: Callable[[], object]) -> None:
        """Let the owner do something that has happened, from any thread."""
        self._happened.put(happened)

    def kick(self) -> None:
        """Check the queue of runs, since something was added to it, or may start now."""
        self.post(self._check_queue)

    def proceed(self, run: Run) -> None:
        """Play the next turn of a run, which a reply has begun, in the process that it keeps."""
        self.post(partial(self._begin, run, Stop()))

    def decide(self, run_id: str, decided: Decided) -> None:
        """Pass on what the user has decided about an action."""

        def tell() -> None:
            if live := self._live.get(run_id):
                live.tell(decided)

        self.post(tell)

    def stop(self, run: Run) -> None:
        """End the turn of a run and the process that it keeps; its slot is free once the whole tree is gone.

        A later turn goes on: its user has continued the run since.
        """

        def end() -> None:
            live = self._live.get(run.run_id)
            if live and live.run.turn_index <= run.turn_index:
                self._stop(live)

        self.post(end)

    def seconds(self, run_id: str) -> float:
        """Return how long ago the last turn of a run that holds a slot began; 0 if it holds none."""
        live = self._live.get(run_id)
        return self._clock() - live.began if live else 0.0

    def play(self, run: Run, stop: Stop) -> LiveRun:
        """Play the turn of a claimed run to its end on this thread; the owner must have no other."""
        live = self._begin(run, stop)
        self.run()
        return live

    def run(self) -> None:
        """Take what happens, until the owner is closed, or, if it has no slots, until no run is left."""
        while True:
            wait = self.drain()
            if not self._live and (self._is_closing or not self.slots):
                return
            with suppress(queue.Empty):
                self._safely(self._happened.get(timeout=wait))

    def drain(self) -> float:
        """Do all that is due now; return in how many seconds more will be due, if nothing happens."""
        while True:
            for _ in range(self._happened.qsize()):
                self._safely(self._happened.get())
            self._pass_deadlines()
            if self._retry <= self._clock():
                self._use_store()
            if self._happened.empty():
                return max(0.0, self._next_time() - self._clock())

    def _next_time(self) -> float:
        lives = list(self._live.values())
        retry = self._retry if self._may_claim or any(live.todo for live in lives) else math.inf
        return min(self._next_chore, retry, *(live.due for live in lives))

    def _safely(self, action: Callable[[], object]) -> None:
        try:
            action()
        except Exception:
            log.exception("an error in turngate")

    def _pass_deadlines(self) -> None:
        now = self._clock()
        for live in list(self._live.values()):
            if live.due <= now:
                live.due = math.inf
                live.tell(KeptCause.TOO_LATE)
        if self._next_chore <= now:
            self._next_chore = now + CHORE_SECONDS
            self._safely(self._chore)

    def _use_store(self) -> None:
        """Write what is to be written, and claim what can be claimed; or try again later."""
        try:
            for live in list(self._live.values()):
                live.flush()
            self._claim()
        except Exception:
            log.exception("the store or the machine doesn't allow it yet")
            self._retry = self._clock() + RETRY_SECONDS

    def _check_queue(self) -> None:
        self._may_claim = self.slots > 0 and not self._is_closing

    def _claim(self) -> None:
        """Claim while there are free slots."""
        while self._may_claim and len(self._live) < self.slots:
            asked = transitions.first_turns(self._store)
            settled = {*asked} - {*self._unsettled(asked)}
            run = transitions.claim(self._store, uuid.uuid4().hex, settled)
            if run is None:
                break
            self._begin(run, Stop()).flush()
        self._may_claim = False

    def _begin(self, run: Run, stop: Stop) -> LiveRun:
        if (live := self._live.get(run.run_id)) is None:
            live = self._live[run.run_id] = LiveRun(self._means, run)
        live.begin(run, stop)
        return live

    def _close(self) -> None:
        self._is_closing, self._may_claim = True, False
        for live in list(self._live.values()):
            self._stop(live)

    def _stop(self, live: LiveRun) -> None:
        live.turn(TurnCause.STOP)
        live.tell(KeptCause.END)

    def _is_given_up(self, error: Exception) -> bool:
        return self._is_closing or self._gives_up(error)

    def _release(self, run: Run) -> None:
        """Free the slot of a run, none of whose processes is left."""
        del self._live[run.run_id]
        self._check_queue()
