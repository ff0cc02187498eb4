"""Runs whose process is kept while the user thinks: one thread takes every event and every deadline of all of them.

What may happen at once (a reply, a deadline, a cancel, the death of the process) is decided by the compare-and-set
of the run's state in the store; whoever comes second finds another state, and does nothing.
"""

import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from turngate.model import AdapterTurnResult, Interaction, Outcome
from turngate.turn.read import read_answer
from turngate_reference.server.orchestrator import finish
from turngate_reference.server.orchestrator.decide import Decision, decide, failed
from turngate_reference.server.orchestrator.handle_records import Records
from turngate_reference.server.orchestrator.prompts import reply_prompt
from turngate_reference.server.orchestrator.sticky_run import REFUSED, StickyRun, session_record
from turngate_reference.server.states import RunErrorCode, State
from turngate_reference.server.sticky.deadlines import Deadlines
from turngate_reference.server.sticky.events import (
    AgentText,
    Gone,
    Lost,
    Opened,
    PermissionAsked,
    StickyEvent,
    StickyRequest,
    TurnEnded,
)
from turngate_reference.server.sticky.host import StickyHost
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.rows import Run, StoredQuestion

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0


class StickyRuns:
    """Keeps the processes of sticky runs; `release` frees a run's slot, `observe` hears of each turn.

    `clock` gives seconds that no change of the wall clock touches.
    """

    def __init__(
        self,
        store: Store,
        records: Records,
        host: StickyHost,
        release: Callable[[Run], None],
        observe: Callable[[str, str, float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._records, self._host = store, records, host
        self._release, self.observe, self._clock = release, observe, clock
        self._kept: dict[str, StickyRun] = {}
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._due = Deadlines(clock)
        self._thread = threading.Thread(target=self._loop, name="turngate-sticky", daemon=True)
        self._thread.start()

    def begin(self, kept: StickyRun, request: StickyRequest) -> None:
        """Start the process of a run that was claimed, and run its first turn in it."""

        def listener(event: StickyEvent) -> None:
            self._inbox.put(lambda: self._on(kept, event))

        def start() -> None:
            if self._is_canceled(kept):
                decision = failed(RunErrorCode.ORCHESTRATOR_ERROR, "canceled")
                finish.finish(self._store, kept.run, decision, finish.TurnResult(0.0))
                self._release(kept.claimed)
                return
            self._kept[kept.run.run_id], kept.turn_began = kept, self._clock()
            self._limit_turn(kept)
            try:
                self._host.open(kept.run.run_id, request, listener)
            except ValueError:
                # the server ends, and starts nothing any more
                self._on(kept, Gone(None))

        self._inbox.put(start)

    def replied(self, run_id: str, question: StoredQuestion, response: str) -> None:
        """Deliver a reply that was taken: the run is `running` again."""
        self._inbox.put(lambda: self._deliver(run_id, question, response))

    def end(self, run_id: str) -> None:
        """End the process of a run, if it has one; its slot is free when the whole tree is gone."""
        # in turn, so that a process that is yet to be started is not missed
        self._inbox.put(lambda: self._host.end(run_id))

    def seconds(self, run_id: str) -> float:
        """Give for how long the turn of a run has lasted; 0 where no process is kept."""
        kept = self._kept.get(run_id)
        return self._clock() - kept.turn_began if kept else 0.0

    def close(self) -> None:
        """End every process, write what became of their runs, and return."""
        self._host.close()
        self._inbox.put(None)
        self._thread.join()

    def _loop(self) -> None:
        while True:
            for what in self._due.ripe():
                self._do(what)
            with suppress(queue.Empty):
                todo = self._inbox.get(timeout=self._due.left())
                if todo is None:
                    return
                self._do(todo)

    def _do(self, todo: Callable[[], None]) -> None:
        """Do one thing; what the store can't take now is done again later."""
        try:
            todo()
        except sqlite3.Error:
            log.exception("the store can't be written yet")
            self._due.after(RETRY_SECONDS, lambda: self._do(todo))
        except Exception:
            log.exception("a sticky run failed in turngate itself")

    def _on(self, kept: StickyRun, event: StickyEvent) -> None:
        match event:
            case Opened():
                self._opened(kept, event)
            case AgentText():
                kept.texts(event.text)
            case TurnEnded():
                self._turn_ended(kept, event)
            case PermissionAsked():
                self._asked(kept, event)
            case Lost():
                kept.lost = event
                self._settle_lost(kept)
            case Gone():
                self._settle_lost(kept)
                self._kept.pop(kept.run.run_id, None)
                kept.clock_count += 1
                with self._store.writing() as connection:
                    finish.end_process(connection, kept.run.run_id, event.exit_code)
                self._release(kept.claimed)

    def _opened(self, kept: StickyRun, event: Opened) -> None:
        kept.process = (kept.run.process or {}) | {
            "pid": event.pid, "started_at": event.started_at, "transport_session_id": event.session_id
        }  # fmt: skip
        with self._store.writing() as connection:
            runs.change(connection, kept.run.run_id, process=kept.process)
            finish.note_argv(connection, kept.run, event.argv)
        self._host.prompt(kept.run.run_id, kept.prompt)

    def _turn_ended(self, kept: StickyRun, event: TurnEnded) -> None:
        if self._is(kept, State.WAITING_USER):
            finish.drop_request(self._store, kept.run.run_id)
        if not self._is(kept, State.RUNNING):
            return
        kept.clock_count += 1
        kept.process["transport_session_id"] = event.session_id
        decision, outcome, repair = self._decided(kept, event)
        came = finish.TurnResult(
            self._clock() - kept.turn_began, outcome, None, repair, session_record(kept, event.session_id)
        )
        until = self._limit_wait(kept) if decision.state is State.WAITING_USER else None
        self._record(kept, decision, came.session)
        # what is noted of the process stays until it is gone, so that a restart finds it
        state = finish.finish(self._store, kept.run, decision, came, process=kept.process, wait_deadline_at=until)
        self.observe(kept.run.engine, outcome, came.seconds)
        if state is not State.WAITING_USER:
            self._host.end(kept.run.run_id)

    def _decided(self, kept: StickyRun, event: TurnEnded) -> tuple[Decision, str, str | None]:
        if event.failure is not None or (event.final_text is None and not event.declined):
            detail = event.failure or "the engine gave no answer"
            return failed(RunErrorCode.ENGINE_FAILED, detail), Outcome.ERROR, None
        result = read_answer(event.final_text or "", kept.run.mode)
        if event.declined and result.outcome is Outcome.ERROR:
            result = AdapterTurnResult(Outcome.ASK_USER, interaction=REFUSED)
        schema = kept.run.request.get("output_schema")
        decision = decide(result, kept.run.mode, canceled=False, can_wait=True, output_schema=schema)
        return decision, result.outcome, result.repair_level

    def _asked(self, kept: StickyRun, event: PermissionAsked) -> None:
        if not self._is(kept, State.RUNNING):
            return
        asked = Interaction("risk_ack", event.prompt, event.options, (), event.context)
        columns = {"wait_deadline_at": self._limit_wait(kept), "process": kept.process}
        if not finish.pause(self._store, kept.run, asked, event.request_id, **columns):
            self._host.end(kept.run.run_id)

    def _deliver(self, run_id: str, question: StoredQuestion, response: str) -> None:
        kept, run = self._kept.get(run_id), runs.find(self._store, run_id)
        if kept is None or run is None or run.state is not State.RUNNING:
            return
        kept.run = run
        self._limit_turn(kept)
        if question.request_id is not None:
            self._host.decide(run_id, question.request_id, response)
            return
        kept.turn_began = self._clock()
        prompt = reply_prompt(
            response, run.mode, artifacts=run.artifacts, output_schema=run.request.get("output_schema")
        )
        self._host.prompt(run_id, prompt)

    def _limit_turn(self, kept: StickyRun) -> None:
        """Bound the turn afresh: from its start, or from the user's answer to an action."""

        def too_late() -> None:
            if self._is(kept, State.RUNNING):
                self._fail_running(kept, RunErrorCode.TURN_TIMEOUT, "the engine was still running at its deadline")
                self._host.end(kept.run.run_id)

        self._limit(kept, too_late)

    def _limit_wait(self, kept: StickyRun) -> str:
        """Bound the wait for the user; gives when it ends, by the wall clock."""

        def too_late() -> None:
            detail = f"no reply came within {kept.run.timeout} seconds"
            # a reply may come at this very moment: whoever changes the state first has it
            if self._fail_waiting(kept, RunErrorCode.INTERACTION_WAIT_TIMEOUT, detail):
                self._host.end(kept.run.run_id)

        self._limit(kept, too_late)
        return (datetime.now(UTC) + timedelta(seconds=kept.run.timeout)).isoformat(timespec="milliseconds")

    def _limit(self, kept: StickyRun, too_late: Callable[[], None]) -> None:
        """Set the one deadline of a run; the one before is void."""
        kept.clock_count += 1
        clock = kept.clock_count

        def is_void() -> bool:
            return kept.clock_count != clock

        def unless_void() -> None:
            # it may have become so since the store could not be written
            if not is_void():
                too_late()

        self._due.after(kept.run.timeout, unless_void, is_void)

    def _settle_lost(self, kept: StickyRun) -> None:
        """Fail a run whose process is lost, unless it has ended before."""
        detail = kept.lost.detail if kept.lost else "the server ended, and with it the process that waited"
        if self._fail_waiting(kept, RunErrorCode.INTERACTION_PROCESS_LOST, detail) or not self._is(kept, State.RUNNING):
            return
        if kept.lost is None:
            # only the end of the server ends the process of a run that still runs and is not canceled
            detail = "the server ended while the turn ran"
            self._fail_running(kept, RunErrorCode.ORCHESTRATOR_RESTART_INTERRUPTED, detail)
            return
        waited = self._store.read("SELECT 1 FROM interactions WHERE run_id = ? LIMIT 1", kept.run.run_id)
        code = RunErrorCode.INTERACTION_PROCESS_LOST if waited else RunErrorCode.ENGINE_FAILED
        if kept.lost.ours:
            log.error("%s: %s", kept.run.run_id, detail)
            code = RunErrorCode.ORCHESTRATOR_ERROR
        self._fail_running(kept, code, detail)

    def _fail_running(self, kept: StickyRun, code: RunErrorCode, detail: str) -> None:
        """Fail a run that is `running`; nobody but this thread takes it out of that state."""
        run, decision = runs.find(self._store, kept.run.run_id) or kept.run, failed(code, detail)
        came = finish.TurnResult(self._clock() - kept.turn_began)
        self._record(kept, decision)
        finish.finish(self._store, run, decision, came, process=run.process)
        self.observe(run.engine, came.outcome, came.seconds)

    def _fail_waiting(self, kept: StickyRun, code: RunErrorCode, detail: str) -> bool:
        """Fail a run if it waits; False: it does not (any more)."""
        decision, seconds = failed(code, detail), self._clock() - kept.turn_began
        with self._store.writing() as connection:
            run = runs.get(connection, kept.run.run_id)
            if run.state is not State.WAITING_USER:
                return False
            ended = finish.end_open_turn(connection, run, decision, seconds)
            runs.transition(
                connection, run.run_id, State.WAITING_USER, State.FAILED,
                error=decision.error, pending_interaction_id=None, wait_deadline_at=None,
                ended_at=runs.now(),
            )  # fmt: skip
        if ended:
            self.observe(run.engine, Outcome.ERROR, seconds)
        # after the deadlines that are due by now: many may fall together
        self._inbox.put(lambda: self._record(kept, decision))
        return True

    def _is(self, kept: StickyRun, state: State) -> bool:
        run = runs.find(self._store, kept.run.run_id)
        return run is not None and run.state is state

    def _is_canceled(self, kept: StickyRun) -> bool:
        run = runs.find(self._store, kept.run.run_id)
        return run is not None and run.cancel_requested

    def _record(self, kept: StickyRun, decision: Decision, session: dict[str, Any] | None = None) -> None:
        run = runs.find(self._store, kept.run.run_id) or kept.run
        self._records.keep(run, decision.state, session or run.session)
