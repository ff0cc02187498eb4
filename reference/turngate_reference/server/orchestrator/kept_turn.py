"""Runs a turn of a run in the process that the run has kept, or the first one in a new process.

The thread of the turn owns the process meanwhile. It reads everything from one queue, in order: the events of the
process, the user's decisions, its deadline and a stop.
"""

import logging
import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from turngate import Ended, Interaction, Reported, Stop
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
from turngate_reference.server.orchestrator.kept_loss import SERVER_STOPPED, loss_in_turn
from turngate_reference.server.orchestrator.kept_processes import (
    KeptProcess,
    KeptProcesses,
    Replied,
    TooLate,
    TurnEvent,
)
from turngate_reference.server.store import runs
from turngate_reference.server.store.runs import RunSession
from turngate_reference.server.transports import events
from turngate_reference.states import Delivery, RunErrorCode, State

log = logging.getLogger(__name__)

_LATE = failed(RunErrorCode.TURN_TIMEOUT, "the engine was still running at its deadline")
Ending = tuple[Decision, TurnResult]
T = TypeVar("T")


class KeptTurn:
    """A turn in a kept process; `wait` waits some seconds if the store can't be written, and says whether to give up.

    While the run `is_asking`, it waits in its turn for the user's permission; `has_asked` says that it did in this
    turn. `began` is the clock's time.
    """

    process: KeptProcess
    delivery: Delivery
    text: str
    began: float

    def __init__(self, turn: HeadlessTurn, processes: KeptProcesses, wait: Callable[[float], bool]) -> None:
        self.turn, self.processes, self.wait = turn, processes, wait
        self.is_asking = self.has_asked = False
        self._reported = dict[Reported, None]()

    def play(self, reply: str | None, stop: Stop) -> Ending:
        """Run the turn in the process that the run has kept, else in a new one; `reply` is None for turn 1.

        Afterwards the process may still exist, unless the turn was cut short. RunHasEnded if it was waiting for a
        permission.
        """
        run = self.turn.run
        self.began = self.processes.clock()
        directory = None if no_artifacts(run, self.turn.engine.contract) else run.artifacts
        if reply is None:
            self.text = first_prompt(run.launch, directory)
        else:
            self.text = reply_prompt(reply, run.launch, directory)
        if kept := self.processes.take(run.run_id):
            return self._with_reports(self._follow(kept, Delivery.LIVING_PROCESS, stop))
        if reply is not None:
            raise ValueError(f"{run.run_id} has no process that could take the reply")
        try:
            process = self.processes.open(run.run_id, self.turn.engine, self._request())
        except ValueError:  # the server is closing
            return INTERRUPTED, TurnResult()
        return self._with_reports(self._follow(process, Delivery.NEW_PROCESS, stop))

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

    def _follow(self, process: KeptProcess, delivery: Delivery, stop: Stop) -> Ending:
        """Follow a process until the turn has ended."""
        self.process, self.delivery = process, delivery
        with stop.telling(process.events) as already:  # type: ignore[arg-type]
            if already:
                return self._end_early(INTERRUPTED)
            if delivery is Delivery.LIVING_PROCESS:
                self.processes.host.prompt(process.run_id, self.text)
            self._limit()
            try:
                while (ending := self._handle(process.events.get())) is None:
                    pass
            except (transitions.RunHasEnded, sqlite3.Error):
                raise
            except Exception as error:
                if not self.is_asking:
                    raise
                log.exception("%s failed because of an error in turngate", process.run_id)
                return self._end_early(failed(RunErrorCode.ORCHESTRATOR_ERROR, f"{type(error).__name__}: {error}"))
            return ending

    def _handle(self, event: TurnEvent) -> Ending | None:
        """Handle what happens during the turn; None: it goes on."""
        match event:
            case Ended():
                return self._end_early(INTERRUPTED, failed(RunErrorCode.INTERACTION_PROCESS_LOST, SERVER_STOPPED))
            case TooLate():
                return self._too_late() if event is self.process.limit else None
            case events.TurnEnded():
                return self._ended(event)
            case events.Lost():
                return self._lost(event)
            case events.Gone():
                return self._lost(None)
            case events.PermissionAsked():
                return self._ask(event)
            case _:
                self._go_on(event)
        return None

    def _go_on(self, event: TurnEvent) -> None:
        """Handle what doesn't end the turn."""
        run, outbox, process = self.turn.run, self.turn.outbox, self.process
        match event:
            case Replied():
                self.is_asking = False
                self.processes.limit(process, run.session_timeout_sec)
                self.processes.host.decide(run.run_id, event.request_id, event.option)
            case events.Opened():
                note = process.note
                outbox.put(lambda connection: runs.change(connection, run.run_id, process=note))
                self.processes.host.prompt(run.run_id, self.text)
            case events.PromptSent():
                argv = process.opened.argv if process.opened else ()
                version = process.engine.version
                outbox.put(lambda connection: transitions.note_start(connection, run, argv, version))
                outbox.put(lambda connection: transitions.note_delivery(connection, run, self.delivery))
                self._limit()
            case events.AgentText():
                self.turn.on_text(event.text)
            case Reported() if len(self._reported) < MAX_REPORTED:
                self._reported[replace(event, text=event.text[:MAX_REPORT])] = None

    def _with_reports(self, ending: Ending) -> Ending:
        decision, result = ending
        return decision, replace(result, reported=tuple(self._reported))

    def _limit(self) -> None:
        """Set the deadline of the turn."""
        left = self.began + self.turn.run.session_timeout_sec - self.processes.clock()
        self.processes.limit(self.process, left)

    def _too_late(self) -> Ending | None:
        if self.is_asking:
            detail = f"no reply came within {self.turn.run.session_timeout_sec} seconds"
            self._fail_asking(failed(RunErrorCode.INTERACTION_WAIT_TIMEOUT, detail))
            return None  # a reply has come in time
        return self._end_early(_LATE)

    def _ask(self, asked: events.PermissionAsked) -> Ending | None:
        """Ask the user for permission, unless the run is to be canceled."""
        run, process = self.turn.run, self.process
        question = Interaction("risk_ack", asked.prompt, asked.options, (), asked.context)

        def ask() -> bool:
            self.turn.outbox.flush()
            columns: dict[str, Any] = {"wait_deadline_at": after(run.session_timeout_sec), "process": process.note}
            if session := self._new_session(process.session_id):  # the run may end while it waits
                columns["session"] = session
            return transitions.ask_permission(self.turn.outbox.store, run, question, asked.request_id, **columns)

        if not self._eventually(ask):
            return self._end_early(INTERRUPTED)
        self.is_asking = self.has_asked = True
        self.processes.limit(process, run.session_timeout_sec)
        return None

    def _fail_asking(self, decision: Decision) -> None:
        """End the turn and its run, if that waits for a permission; RunHasEnded unless it is running."""
        run_id = self.turn.run.run_id

        def fail() -> State:
            self.turn.outbox.flush()
            return self.processes.losses.fail_waiting(run_id, decision, self.processes.clock() - self.began)

        if self._eventually(fail) is not State.RUNNING:
            self.processes.finish(run_id)
            raise transitions.RunHasEnded

    def _end_early(self, decision: Decision, approval: Decision | None = None) -> Ending:
        """End a turn together with its process, which must not go on in the workspace of a run that has ended.

        `approval` is the decision for a run that waits for a permission, if that differs.
        """
        if self.is_asking:
            self._fail_asking(approval or decision)
        self.processes.finish(self.turn.run.run_id)
        return decision, self._early_result()

    def _lost(self, lost: events.Lost | None) -> Ending:
        """End a process that can't continue, and the turn."""
        process = self.process
        if self.is_asking:
            detail = lost.detail if lost else SERVER_STOPPED
            self._fail_asking(failed(RunErrorCode.INTERACTION_PROCESS_LOST, detail))
        self.processes.finish(process.run_id)
        if lost is not None:
            log.log(
                logging.ERROR if lost.ours else logging.INFO, "%s lost its process: %s", process.run_id, lost.detail
            )
        has_asked = self.has_asked or self.turn.run.turn_index > 1
        return loss_in_turn(lost, has_asked=has_asked), self._early_result()

    def _ended(self, event: events.TurnEnded) -> Ending:
        """Return the next state of the run; an engine's failure takes precedence."""
        run, turn = self.turn.run, self.turn
        if self.is_asking:
            self._drop_question()
        if event.failure is not None:
            decision, result = failed(RunErrorCode.ENGINE_FAILED, event.failure), TurnResult()
        else:
            decision, result = decide_kept(run, event.final_text, declined=event.declined, data_flaw=turn.data_flaw)
        return decision, replace(result, session=self._new_session(event.session_id))

    def _drop_question(self) -> None:
        """Take back a request for permission whose turn has ended; RunHasEnded if its run has ended, too."""
        run_id, store = self.turn.run.run_id, self.turn.outbox.store
        self._eventually(lambda: transitions.drop_permission(store, run_id))
        self.is_asking = False
        current = self._eventually(lambda: runs.find(store, run_id))
        if current is None or current.state is not State.RUNNING:
            self.processes.finish(run_id)
            raise transitions.RunHasEnded

    def _new_session(self, session_id: str | None) -> RunSession | None:
        """Return what to store of a session id if it is new and a headless resume would accept it, too."""
        run, contract = self.turn.run, self.turn.engine.contract
        if run.session is not None or not contract.sticky.keeps_session_id or unsafe(session_id or ""):
            return None
        return stored_session(contract, session_id or "", run.turn_index)

    def _early_result(self) -> TurnResult:
        return TurnResult(session=self._new_session(self.process.session_id))

    def _eventually(self, action: Callable[[], T]) -> T:
        return transitions.eventually(action, self.wait)
