"""Slots and the queue: starts the turns of queued runs, first in, first out, as slots become free."""

import logging
import threading
import uuid
from collections.abc import Callable, Collection

from turngate import Stop
from turngate_reference.server.orchestrator import transitions
from turngate_reference.server.orchestrator.decide import INTERRUPTED, Decision, TurnResult, failed
from turngate_reference.server.orchestrator.run_files import Records
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Outbox, Store
from turngate_reference.server.store.runs import ProcessNote, Run
from turngate_reference.states import RunErrorCode

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0


class Dispatcher:
    """Runs each turn in a slot and in a separate thread."""

    def __init__(self, store: Store, records: Records, slots: int) -> None:
        self.slots = slots
        self._store, self._records = store, records
        # keyed by the claim's tag: a run may be claimed again while the thread of its last turn is still ending
        self._held: dict[str, tuple[str, Stop]] = {}
        self._threads: set[threading.Thread] = set()
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._released = threading.Condition(self._lock)
        self._closing = threading.Event()
        self._end_kept: Callable[[str], None] = lambda _run_id: None
        self._thread: threading.Thread | None = None

    @property
    def held(self) -> int:
        """How many slots are held now."""
        return len(self._held)

    @property
    def works(self) -> bool:
        """Whether the queue is being processed."""
        return self._thread is not None and self._thread.is_alive() and not self._closing.is_set()

    def start(
        self,
        run_turn: Callable[[Run, Stop], bool],
        unsettled: Callable[[Collection[str]], Collection[str]] = lambda _engines: (),
        end_kept: Callable[[str], None] = lambda _run_id: None,
    ) -> None:
        """Start processing the queue.

        `run_turn` runs a claimed turn to its end; False: a sticky process holds the slot until `release`, and the next
        turn in it begins with `proceed`.
        `unsettled` picks, from the names of engines, those whose interactive runs must not start yet. Call `kick` when
        that changes. `end_kept` ends the process that a run has kept, if any, without waiting.
        """
        self._run_turn, self._unsettled, self._end_kept = run_turn, unsettled, end_kept
        self._thread = threading.Thread(target=self._loop, name="turngate-dispatch", daemon=True)
        self._thread.start()
        self.kick()

    def kick(self) -> None:
        """Check the queue, since something was added to it."""
        self._wake.set()

    def stop(self, run_id: str) -> None:
        """End the process of a run, if any; its slot is free once the whole tree is gone."""
        with self._lock:
            stops = [stop for held, stop in self._held.values() if held == run_id]
        for stop in stops:
            stop.set()
        self._end_kept(run_id)  # a turn that has none yet looks at its stop when it has opened one

    def proceed(self, run: Run) -> None:
        """Run the next turn of a run whose sticky process holds its slot, and whose reply has begun that turn."""
        tag = run.process.tag if run.process else ""
        try:
            with self._lock:
                if not self._closing.is_set():
                    self._start(run, tag, self._held[tag][1])
                    return
            decision = INTERRUPTED
        except Exception as error:
            log.exception("%s can't continue", run.run_id)
            decision = _not_started(error)
        self._fail(run, decision, run.process)

    def release(self, tag: str) -> None:
        """Free the slot that was taken with a claim; no process of that claim is left."""
        with self._lock:
            self._held.pop(tag, None)
            self._released.notify_all()
        self._wake.set()

    def wait_until_free(self, timeout: float) -> bool:
        """Wait up to `timeout` seconds until no slot is held; False if one still is."""
        with self._released:
            return self._released.wait_for(lambda: not self._held, timeout)

    def close(self) -> None:
        """Start nothing more, end all running turns, and return when they have ended."""
        self._closing.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            held, threads = [run_id for run_id, _ in self._held.values()], list(self._threads)
        for run_id in held:
            self.stop(run_id)
        for thread in threads:
            thread.join()

    def _loop(self) -> None:
        """Claim while there are free slots; try again later when the store or the machine does not allow it."""
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._closing.is_set():
                return
            try:
                while not self._closing.is_set() and self.held < self.slots:
                    asked = transitions.first_turns(self._store)
                    held_back = self._unsettled(asked)
                    first = transitions.first_queued(self._store, held_back)
                    if not {*transitions.first_turns(self._store)} <= {*asked}:
                        continue  # a run came meanwhile, and nobody asked whether its engine is settled
                    if first is None:
                        break
                    self._begin(held_back, first)
            except Exception:
                log.exception("can't process the queue yet")
                # the freed slot has woken this thread, and must not cause an immediate retry
                self._closing.wait(RETRY_SECONDS)
                self._wake.set()

    def _begin(self, held_back: Collection[str], run_id: str) -> None:
        """Take a slot, then the run for it, if that is still the first."""
        tag, stop = uuid.uuid4().hex, Stop()
        with self._lock:
            self._held[tag] = "", stop
        run = None
        try:
            run = transitions.claim(self._store, tag, held_back, run_id)
        finally:
            if run is None:
                self.release(tag)
        if run is None:
            return
        try:
            self._start(run, tag, stop)
        except Exception as error:
            self.release(tag)
            self._fail(run, _not_started(error), run.process.kept if run.process else None)
            raise
        # a cancel between the claim and this had nothing to stop
        current = runs.find(self._store, run.run_id)
        if current is not None and current.cancel_requested:
            self.stop(run.run_id)

    def _fail(self, run: Run, decision: Decision, left: ProcessNote | None) -> None:
        """End a turn that has no thread, and the process that the run has kept."""
        outbox, result = Outbox(self._store, self._closing.wait), TurnResult(0.0, process=left)
        transitions.end_turn_eventually(outbox, self._records, run, decision, result)
        self._end_kept(run.run_id)

    def _start(self, run: Run, tag: str, stop: Stop) -> None:
        thread = threading.Thread(target=self._work, args=(run, stop), name=f"turngate-{run.handle}", daemon=True)
        with self._lock:
            self._held[tag] = run.run_id, stop
            self._threads.add(thread)
            try:
                thread.start()
            except BaseException:
                self._threads.discard(thread)
                raise

    def _work(self, run: Run, stop: Stop) -> None:
        done = True
        try:
            done = self._run_turn(run, stop)
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())
            if done:
                self.release(run.process.tag if run.process else "")


def _not_started(error: Exception) -> Decision:
    why = f"its turn could not be started: {type(error).__name__}: {error}"
    return failed(RunErrorCode.ORCHESTRATOR_ERROR, why)
