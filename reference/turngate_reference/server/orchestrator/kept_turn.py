"""Runs a turn of a run in the process that the run has kept, or the first one in a new process.

The thread of the turn owns the process meanwhile, and does what `kept_states` orders, one thing after the other.
"""

import logging
import math
import sqlite3
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec.structs import replace

from turngate import Interaction, Reported, Stop
from turngate.contract.session_ids import unsafe
from turngate.turn.read import MAX_REPORT, MAX_REPORTED
from turngate_reference.engine.attempt import traces
from turngate_reference.handle_record import after
from turngate_reference.server.orchestrator import transitions
from turngate_reference.server.orchestrator.decide import INTERRUPTED, Decision, TurnResult, decide_kept, failed
from turngate_reference.server.orchestrator.headless import (
    HeadlessTurn,
    first_prompt,
    no_artifacts,
    reply_prompt,
    stored_session,
)
from turngate_reference.server.orchestrator.kept_loss import fails_turn, fails_waiting
from turngate_reference.server.orchestrator.kept_processes import KeptProcess, KeptProcesses
from turngate_reference.server.orchestrator.kept_states import Effect, KeptCause, KeptEvent
from turngate_reference.server.store import runs
from turngate_reference.server.store.runs import RunSession
from turngate_reference.server.transports import events
from turngate_reference.states import Delivery, RunErrorCode

log = logging.getLogger(__name__)

Ending = tuple[Decision, TurnResult]


class KeptTurn:
    """A turn in a kept process."""

    process: KeptProcess
    delivery: Delivery

    def __init__(self, turn: HeadlessTurn, processes: KeptProcesses) -> None:
        self.turn, self.processes = turn, processes
        self._reported = dict[Reported, None]()

    def play(self, reply: str | None, stop: Stop) -> Ending:
        """Run the turn in the process that the run has kept, else in a new one; `reply` is None for turn 1.

        Afterwards the process may still exist, unless the turn was cut short. RunHasEnded if it was waiting for a
        permission.
        """
        run = self.turn.run
        directory = None if no_artifacts(run, self.turn.engine.contract) else run.artifacts
        if reply is None:
            text = first_prompt(run.launch, directory)
            try:
                self.process = self.processes.open(
                    run.run_id, self.turn.engine, self._request(), text, run.session_timeout_sec
                )
            except ValueError:  # the server is closing
                return INTERRUPTED, TurnResult()
            if stop.is_set():  # whoever set it may have found no process to end
                self.processes.end(run.run_id)
            return self._follow(Delivery.NEW_PROCESS)
        if (kept := self.processes.begin_turn(run.run_id, reply_prompt(reply, run.launch, directory))) is None:
            raise ValueError(f"{run.run_id} has no process that could take the reply")
        self.process = kept
        return self._follow(Delivery.LIVING_PROCESS)

    def _request(self) -> events.OpenRequest:
        run, engine, env = self.turn.run, self.turn.engine, self.turn.env
        return events.OpenRequest(
            engine.executable,
            engine.contract,
            run.cwd,
            {**env, "PWD": str(run.cwd)},
            run.execution_mode,
            run.process.tag if run.process else "",
            traces(run.run_directory, run.turn_index),
            run.model,
            run.launch.engine_options,
        )

    def _follow(self, delivery: Delivery) -> Ending:
        """Do what is ordered until the turn has ended."""
        self.delivery, orders = delivery, self.process.orders
        try:
            while (ending := self._carry_out(*orders.get())) is None:
                pass
        except (transitions.RunHasEnded, sqlite3.Error):
            raise
        except Exception as error:
            log.exception("%s failed because of an error in turngate", self.process.run_id)
            self._fail_waiting(failed(RunErrorCode.ORCHESTRATOR_ERROR, f"{type(error).__name__}: {error}"))
            raise
        decision, result = ending
        return decision, replace(result, reported=tuple(self._reported))

    def _carry_out(self, effect: Effect, event: KeptEvent) -> Ending | None:
        """Do what must be done; None: the turn goes on."""
        match effect, event:
            case Effect.ASK, events.PermissionAsked():
                self._ask(event)
            case ((Effect.TAKE_BACK | Effect.FINISH), events.TurnEnded()):
                outbox = self.turn.outbox
                drop = partial(transitions.drop_permission, outbox.store, self.process.run_id)
                if effect is Effect.TAKE_BACK and not outbox.eventually(drop):
                    self._cut_short()
                return self._finish(event)
            case Effect.EXPIRE, _:
                if math.isinf(self.process.due):
                    self._fail_waiting(fails_waiting(event, self.process.seconds))
            case Effect.FAIL, _:
                return self._fail()
            case _:
                self._note(event)
        return None

    def _note(self, event: KeptEvent) -> None:
        """Store what the process did."""
        run, outbox, process = self.turn.run, self.turn.outbox, self.process
        match event:
            case events.Opened():
                note = process.note
                outbox.put(lambda connection: runs.change(connection, run.run_id, process=note))
            case events.PromptSent():
                argv = process.life.opened.argv if process.life.opened else ()
                version = process.engine.version
                outbox.put(lambda connection: transitions.note_start(connection, run, argv, version))
                outbox.put(lambda connection: transitions.note_delivery(connection, run, self.delivery))
            case events.AgentText():
                self.turn.on_text(event.text)
            case Reported() if len(self._reported) < MAX_REPORTED:
                self._reported[replace(event, text=event.text[:MAX_REPORT])] = None

    def _ask(self, asked: events.PermissionAsked) -> None:
        """Ask the user for permission, unless the run is to be canceled."""
        run, process = self.turn.run, self.process
        question = Interaction("risk_ack", asked.prompt, asked.options, (), asked.context)

        def ask() -> bool:
            columns: dict[str, Any] = {"wait_deadline_at": after(run.session_timeout_sec), "process": process.note}
            if session := self._new_session(process.life.session_id):  # the run may end while it waits
                columns["session"] = session
            return transitions.ask_permission(self.turn.outbox.store, run, question, asked.request_id, **columns)

        is_asked = self.turn.outbox.eventually(ask)
        self.processes.tell(run.run_id, KeptCause.RUN_ASKS if is_asked else KeptCause.END)

    def _fail_waiting(self, decision: Decision) -> None:
        """End the turn and its run, if that waits for a permission; RunHasEnded unless it goes on."""
        if self.turn.outbox.eventually(lambda: self.processes.fail_waiting(self.process, decision)):
            self._cut_short()

    def _cut_short(self) -> None:
        """End the process of a run that has ended, and raise RunHasEnded."""
        self.processes.end_wholly(self.process.run_id)
        raise transitions.RunHasEnded

    def _fail(self) -> Ending:
        """End the turn, whose process is gone."""
        process, life = self.process, self.process.life
        if isinstance(life.end, events.Lost):
            level = logging.ERROR if life.end.ours else logging.INFO
            log.log(level, "%s lost its process: %s", process.run_id, life.end.detail)
        with suppress(sqlite3.Error):  # the server closes, and the next one fails a run that waits
            self._fail_waiting(fails_waiting(life.end, process.seconds))
        return fails_turn(life.end, has_asked=life.has_asked), TurnResult(session=self._new_session(life.session_id))

    def _finish(self, event: events.TurnEnded) -> Ending:
        """Return the next state of the run; an engine's failure takes precedence."""
        run, turn = self.turn.run, self.turn
        if event.failure is not None:
            decision, result = failed(RunErrorCode.ENGINE_FAILED, event.failure), TurnResult()
        else:
            decision, result = decide_kept(run, event.final_text, declined=event.declined, data_flaw=turn.data_flaw)
        return decision, replace(result, session=self._new_session(event.session_id))

    def _new_session(self, session_id: str | None) -> RunSession | None:
        """Return what to store of a session id if it is new and a headless resume would accept it, too."""
        run, contract = self.turn.run, self.turn.engine.contract
        if run.session is not None or not contract.sticky.keeps_session_id or unsafe(session_id or ""):
            return None
        return stored_session(contract, session_id or "", run.turn_index)
