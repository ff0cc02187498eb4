"""Handles runs with a sticky process: one thread takes all their events and deadlines.

Competing changes (a reply, a deadline, a cancel, the death of the process) are decided by a compare-and-set
on the run's state in the store: the later one sees another state and does nothing.

A run with a sticky process, and what the server keeps about it while the process exists.
"""

import logging
import sqlite3
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from turngate import EngineContract, Interaction, Outcome
from turngate.contract.session_ids import unsafe
from turngate_reference.engine.attempt import traces
from turngate_reference.engine.lookup import InstalledEngine
from turngate_reference.handle_record import after
from turngate_reference.server.orchestrator import transitions
from turngate_reference.server.orchestrator.decide import (
    INTERRUPTED,
    DataFlaw,
    Decision,
    TurnResult,
    decide_sticky,
    failed,
)
from turngate_reference.server.orchestrator.headless import first_prompt, reply_prompt, text_events
from turngate_reference.server.orchestrator.run_files import Records
from turngate_reference.server.orchestrator.run_inbox import RunInbox
from turngate_reference.server.orchestrator.sessions import stored_session
from turngate_reference.server.sticky import events
from turngate_reference.server.sticky.session import StickyHost
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Outbox, Store
from turngate_reference.server.store.runs import ProcessNote, Run, StoredQuestion
from turngate_reference.states import Delivery, RunErrorCode, State


@dataclass(slots=True)
class StickyRun:
    """A run with a process: `run` is its state at the start of the turn, `turn_began` the clock's time then.

    `process` is the note of its process, and `is_gone` says that it has ended. `judge` decides how its turns end, and
    passes its events on in order. `lost` is None if the process is alive or was
    ended by turngate.
    """

    run: Run
    contract: EngineContract
    outbox: Outbox
    on_text: Callable[[str], None]
    turn_began: float
    process: ProcessNote
    is_gone: bool = False
    lost: events.Lost | None = None
    judge: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1, "turngate-judge"))

    def note(self, **fields: Any) -> None:
        """Change fields of the note of the process."""
        self.process = structs.replace(self.process, **fields)

    def session(self) -> dict[str, Any] | None:
        """Return the session id of the process if it is new and a headless resume would accept it too."""
        session_id = self.process.transport_session_id or ""
        if self.run.session is not None or not self.contract.sticky.same_id or unsafe(session_id):
            return None
        return stored_session(self.contract, session_id, 1)


log = logging.getLogger(__name__)

_LATE = failed(RunErrorCode.TURN_TIMEOUT, "the engine was still running at its deadline")


class StickyRuns:
    """Holds the runs with a sticky process; `release` frees a run's slot, `observe` is called for each turn.

    `data_flaw` applies an output schema; `clock` returns seconds, independent of changes of the wall clock.
    """

    def __init__(
        self,
        store: Store,
        records: Records,
        host: StickyHost,
        release: Callable[[Run], None],
        observe: Callable[[str, str, float], None],
        data_flaw: DataFlaw,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._records, self._host = store, records, host
        self._release, self.observe, self._clock = release, observe, clock
        self._data_flaw = data_flaw
        self._runs: dict[str, StickyRun] = {}
        self._inbox = RunInbox(clock, self._fail)

    def begin(self, run: Run, engine: InstalledEngine, env: Mapping[str, str]) -> None:
        """Start the process of a claimed run, and run its first turn in it; `env` is the engine's."""
        outbox = Outbox(self._store)
        note, on_text = run.process or ProcessNote(""), text_events(outbox, run)
        sticky = StickyRun(run, engine.contract, outbox, on_text, self._clock(), note)
        request = events.StickyRequest(
            engine.executable,
            engine.contract,
            run.cwd,
            {**env, "PWD": str(run.cwd)},
            run.mode,
            sticky.process.tag,
            traces(run.run_directory, run.turn_index),
            run.model,
            run.launch.engine_options,
        )

        def listener(event: events.StickyEvent) -> None:
            if isinstance(event, events.AgentText):
                sticky.on_text(event.text)  # which is bounded, and never waits
            elif isinstance(event, events.TurnEnded):
                ended = event
                judged = sticky.judge.submit(self._judge, sticky, ended)
                judged.add_done_callback(
                    lambda done: self._inbox.put(run.run_id, lambda: self._turn_ended(sticky, ended, *done.result()))
                )
            else:
                sticky.judge.submit(self._inbox.put, run.run_id, lambda: self._on(sticky, event))

        def start() -> None:
            self._runs[run.run_id] = sticky
            try:
                if not self._current(sticky).cancel_requested:
                    self._limit_turn(sticky)
                    self._host.open(run.run_id, request, listener)
                    return
            except sqlite3.Error:
                raise
            except Exception as error:
                log.exception("no process was started for %s", run.run_id)
                # ValueError: the server is closing, and starts nothing more
                sticky.lost = None if isinstance(error, ValueError) else events.Lost(repr(error), ours=True)
            self._gone(sticky, None)

        self._inbox.put(run.run_id, start)

    def replied(self, run_id: str, question: StoredQuestion, response: str) -> None:
        """Deliver an accepted reply: the run is `running` again."""
        self._inbox.put(run_id, lambda: self._deliver(run_id, question, response))

    def end(self, run_id: str) -> None:
        """End the process of a run, if any; its slot is free once the whole tree is gone."""
        # queued, so that a process that has yet to start is not missed
        self._inbox.put(run_id, lambda: self._host.end(run_id))

    def seconds(self, run_id: str) -> float:
        """Return how long the turn of a run has lasted; 0 without a process."""
        sticky = self._runs.get(run_id)
        return self._clock() - sticky.turn_began if sticky else 0.0

    def close(self) -> None:
        """End every process, save the state of their runs, and return."""
        self._host.close()
        for sticky in list(self._runs.values()):
            sticky.judge.shutdown()
        self._inbox.close()

    def _on(self, sticky: StickyRun, event: events.StickyEvent) -> None:
        match event:
            case events.Opened():
                self._opened(sticky, event)
            case events.PermissionAsked():
                self._asked(sticky, event)
            case events.Lost():
                sticky.lost = event
                self._settle_lost(sticky)
            case events.Gone():
                self._gone(sticky, event.exit_code)

    def _gone(self, sticky: StickyRun, exit_code: int | None) -> None:
        """Settle a run whose process is gone, and free its slot, even if anything but the store fails."""
        run_id, sticky.is_gone = sticky.run.run_id, True
        try:
            self._settle_lost(sticky)
            with self._store.writing() as connection:
                transitions.end_process(connection, run_id, exit_code)
        except sqlite3.Error:
            raise
        except Exception as error:
            log.exception("%s can't be settled", run_id)
            self._fail(run_id, error)
        self._runs.pop(run_id, None)
        self._inbox.drop_deadline(run_id)
        sticky.judge.shutdown(wait=False)
        sticky.outbox.close()
        self._release(sticky.run)

    def _fail(self, run_id: str, error: Exception) -> None:
        """Fail a run after an internal error of turngate; its slot is free once its process is gone."""
        if (sticky := self._runs.get(run_id)) is None:
            return
        self._host.end(run_id)
        decision = failed(RunErrorCode.ORCHESTRATOR_ERROR, repr(error)[:500])
        try:
            if not self._fail_waiting(sticky, decision) and self._is(sticky, State.RUNNING):
                self._fail_running(sticky, decision)
        except sqlite3.Error:
            raise
        except Exception:
            log.exception("%s can't be failed either", run_id)

    def _opened(self, sticky: StickyRun, event: events.Opened) -> None:
        sticky.note(pid=event.pid, started_at=event.started_at, transport_session_id=event.session_id)
        with self._store.writing() as connection:
            runs.change(connection, sticky.run.run_id, process=sticky.process)
            transitions.note_argv(connection, sticky.run, event.argv)
            transitions.note_delivery(connection, sticky.run, Delivery.NEW_PROCESS)
        self._host.prompt(sticky.run.run_id, first_prompt(sticky.run.launch, sticky.run.artifacts))

    def _judge(self, sticky: StickyRun, event: events.TurnEnded) -> tuple[Decision, TurnResult]:
        """Decide how a turn ends, which may take seconds; only later events of this run wait for it."""
        return decide_sticky(
            sticky.run, event.final_text, event.failure, declined=event.declined, data_flaw=self._data_flaw
        )

    def _turn_ended(self, sticky: StickyRun, event: events.TurnEnded, decision: Decision, result: TurnResult) -> None:
        if self._is(sticky, State.WAITING_USER):
            transitions.drop_permission(self._store, sticky.run.run_id)
        if not self._is(sticky, State.RUNNING):
            return
        sticky.note(transport_session_id=event.session_id)
        result = replace(result, seconds=self._clock() - sticky.turn_began)
        until = after(sticky.run.timeout) if decision.state is State.WAITING_USER else None
        state = self._end_turn(sticky, decision, result, wait_deadline_at=until)
        if state is State.WAITING_USER:
            self._limit_wait(sticky)
        else:
            self._inbox.drop_deadline(sticky.run.run_id)
            self._host.end(sticky.run.run_id)

    def _asked(self, sticky: StickyRun, event: events.PermissionAsked) -> None:
        if self._is(sticky, State.RUNNING):
            asked = Interaction("risk_ack", event.prompt, event.options, (), event.context)
            columns: dict[str, Any] = {"wait_deadline_at": after(sticky.run.timeout), "process": sticky.process}
            if session := sticky.session():  # the run may end while it waits
                columns["session"] = session
            sticky.outbox.flush()
            if transitions.ask_permission(self._store, sticky.run, asked, event.request_id, **columns):
                self._limit_wait(sticky)
            else:
                self._host.end(sticky.run.run_id)

    def _deliver(self, run_id: str, question: StoredQuestion, response: str) -> None:
        sticky, run = self._runs.get(run_id), runs.find(self._store, run_id)
        if sticky is None or run is None or run.state is not State.RUNNING:
            return
        sticky.run = run
        self._limit_turn(sticky)
        if question.request_id is not None:
            self._host.decide(run_id, question.request_id, response)
            return
        sticky.turn_began, sticky.on_text = self._clock(), text_events(sticky.outbox, run)
        sticky.outbox.put(lambda written: transitions.note_delivery(written, run, Delivery.LIVING_PROCESS))
        self._host.prompt(run_id, reply_prompt(response, run.launch, run.artifacts))

    def _limit_turn(self, sticky: StickyRun) -> None:
        """Set the deadline of the turn: from its start, or from the user's answer to an action."""

        def too_late() -> None:
            if self._is(sticky, State.RUNNING):
                self._fail_running(sticky, _LATE)
                self._host.end(sticky.run.run_id)

        self._inbox.set_deadline(sticky.run.run_id, sticky.run.timeout, too_late)

    def _limit_wait(self, sticky: StickyRun) -> None:
        """Set the deadline for the user."""

        def too_late() -> None:
            detail = f"no reply came within {sticky.run.timeout} seconds"
            # a reply may arrive at this moment: whichever changes the state first wins
            if self._fail_waiting(sticky, failed(RunErrorCode.INTERACTION_WAIT_TIMEOUT, detail)):
                self._host.end(sticky.run.run_id)

        self._inbox.set_deadline(sticky.run.run_id, sticky.run.timeout, too_late)

    def _settle_lost(self, sticky: StickyRun) -> None:
        """Fail a run whose process is lost, unless it has ended before."""
        lost = sticky.lost
        detail = lost.detail if lost else "the server stopped, and with it the waiting process"
        no_process = failed(RunErrorCode.INTERACTION_PROCESS_LOST, detail)
        if self._fail_waiting(sticky, no_process) or not self._is(sticky, State.RUNNING):
            return
        if lost is None:
            # if the run is neither ended nor canceled, only a server shutdown can have ended its process
            self._fail_running(sticky, INTERRUPTED)
        elif lost.ours:
            log.error("%s: %s", sticky.run.run_id, detail)
            self._fail_running(sticky, failed(RunErrorCode.ORCHESTRATOR_ERROR, detail))
        else:
            waited = self._store.read("SELECT 1 FROM interactions WHERE run_id = ? LIMIT 1", sticky.run.run_id)
            self._fail_running(sticky, no_process if waited else failed(RunErrorCode.ENGINE_FAILED, detail))

    def _fail_running(self, sticky: StickyRun, decision: Decision) -> None:
        """Fail a run that is `running`; only this thread takes it out of that state."""
        run = self._current(sticky)
        if run.turn_index > sticky.run.turn_index:  # its reply has begun the turn, but is not delivered yet
            sticky.run, sticky.turn_began = run, self._clock()
        self._end_turn(sticky, decision, TurnResult(self._clock() - sticky.turn_began))

    def _end_turn(self, sticky: StickyRun, decision: Decision, result: TurnResult, **columns: Any) -> State | None:
        """End a turn; return the new state, or None if the run must be canceled, which happens in `_gone`."""
        sticky.outbox.flush()
        # keep the note of the process until it is gone, so that a restart can end it
        result = replace(result, process=None if sticky.is_gone else sticky.process, session=sticky.session())
        state = transitions.end_turn(self._store, self._records, sticky.run, decision, result, **columns)
        if state is not None:
            self.observe(sticky.run.engine, result.outcome, result.seconds or 0.0)
        return state

    def _fail_waiting(self, sticky: StickyRun, decision: Decision) -> bool:
        """Fail a run if it waits; False if it no longer waits."""
        seconds = self._clock() - sticky.turn_began
        sticky.outbox.flush()
        with self._store.writing() as connection:
            run = runs.get(connection, sticky.run.run_id)
            if run.state is not State.WAITING_USER:
                return False
            turn_ended = transitions.end_run(connection, run, decision, seconds)
        if turn_ended:
            self.observe(run.engine, Outcome.ERROR, seconds)
        # wait until after the deadlines that are due now: many may coincide
        self._inbox.put(run.run_id, lambda: self._records.keep(run, decision.state, run.session))
        return True

    def _current(self, sticky: StickyRun) -> Run:
        return runs.find(self._store, sticky.run.run_id) or sticky.run

    def _is(self, sticky: StickyRun, state: State) -> bool:
        return self._current(sticky).state is state
