"""The commands of callers: create a run, reply to its question, cancel it. Each is one transaction."""

import sqlite3
from typing import Any

from msgspec import Struct

from turngate import MachineError, Mode
from turngate.contract.session_ids import unsafe
from turngate.process.session_store import session_exists
from turngate_reference import handle_record
from turngate_reference.data_dir import locked
from turngate_reference.engine.lookup import InstalledEngine, contract_for
from turngate_reference.server.api_errors import ApiError
from turngate_reference.server.orchestrator import transitions
from turngate_reference.server.orchestrator.admission import Admission
from turngate_reference.server.orchestrator.decide import Decision
from turngate_reference.server.orchestrator.dispatcher import Dispatcher
from turngate_reference.server.orchestrator.engines import Engines
from turngate_reference.server.orchestrator.kept_processes import KeptProcesses
from turngate_reference.server.orchestrator.run_files import Records, lost_workspace
from turngate_reference.server.requests import ContinueRequest, IdempotencyKey, ReplyRequest, RunRequest
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.idempotency import IdempotentRequest
from turngate_reference.server.store.runs import Run
from turngate_reference.states import ENDED, Cause, State

BETWEEN_TURNS_SECONDS = 1.0  # a turn whose question is stored has ended its thread well before


class Commands(Struct, frozen=True):
    """Everything that changes runs from outside."""

    store: Store
    records: Records
    engines: Engines
    admission: Admission
    dispatcher: Dispatcher
    kept: KeptProcesses

    def create(self, request: RunRequest, key: IdempotencyKey | None) -> dict[str, Any]:
        """Queue a new run; ApiError says why it is refused."""
        once = IdempotentRequest("POST /v1/runs", key)
        with self.store.writing() as connection:
            if (before := once.answer(connection)) is not None:
                return before
        launch, workspace = self.admission.launch(request)
        try:
            with self.records.created(launch, workspace) as (handle, directory):
                with self.store.writing() as connection:
                    before = once.answer(connection)
                    if before is None:
                        run = runs.insert(connection, handle, directory, launch, workspace)
                        answer = _accepted(run) | {"handle": handle}
                        once.keep(connection, directory.name, answer)
                if before is not None:
                    self.records.discard(handle, directory)
                    return before
        except sqlite3.IntegrityError as error:
            if "runs.workspace" not in str(error):
                raise
            hint = "wait until it ends, cancel it, or use another directory"
            raise ApiError("WORKSPACE_BUSY", f"another unfinished run is using {workspace}", hint) from error
        self.dispatcher.kick()
        return answer

    def reply(self, run_id: str, reply: ReplyRequest, key: IdempotencyKey | None) -> dict[str, Any]:
        """Take the user's reply, and queue the run for its next turn; ApiError: nothing has changed."""
        once = IdempotentRequest(f"POST /v1/runs/{run_id}/interaction/reply", key)
        engine = self._resumed_engine(run_id)
        with self.store.writing() as connection:
            if (before := once.answer(connection)) is not None:
                return before
            run = _existing(connection, run_id)
            if run.state is not State.WAITING_USER:
                raise ApiError(
                    "NOT_WAITING", f"the run is {run.state} and isn't waiting for a reply", "check its state"
                )
            if run.pending_interaction_id != reply.interaction_id:
                hint = f"read {run.links['interaction']} and reply to the open question"
                raise ApiError("INTERACTION_STALE", f"{reply.interaction_id[:100]!r} is not the open question", hint)
            question = runs.question_in(connection, reply.interaction_id)
            self.admission.check_reply(run, question, reply, engine)
            transitions.take_reply(connection, run, reply.response, permission=question.request_id is not None)
            run = runs.get(connection, run_id)
            answer = _accepted(run) | {"interaction_id": reply.interaction_id}
            once.keep(connection, run_id, answer)
        if run.state is State.QUEUED:
            self.dispatcher.kick()
        elif question.request_id is not None:
            self.kept.replied(run_id, question.request_id, reply.response)
        else:
            self.dispatcher.proceed(run)
        return answer

    def continue_run(self, run_id: str, request: ContinueRequest, key: IdempotencyKey | None) -> dict[str, Any]:
        """Queue a failed run for another turn in its session; ApiError: nothing has changed."""
        once = IdempotentRequest(f"POST /v1/runs/{run_id}/continue", key)
        with self.store.writing() as connection:
            if (before := once.answer(connection)) is not None:
                return before
            run = _existing(connection, run_id)
        try:
            with locked(self.records.data.lock(run.handle), run.handle):
                if why := self.no_continue(run):
                    raise ApiError("NOT_CONTINUABLE", f"the run can't be continued: {why}", "start a new run")
                engine = self._found(run)
                self.admission.check_message(run, request.message, engine, allow_file_marks=request.allow_file_marks)
                with self.store.writing() as connection:
                    if (before := once.answer(connection)) is not None:
                        return before
                    if runs.get(connection, run_id) != run:
                        raise ApiError("NOT_CONTINUABLE", "the run has changed meanwhile", "look at it again")
                    transitions.continue_failed(connection, run, request.message)
                    run = runs.get(connection, run_id)
                    answer = _accepted(run)
                    once.keep(connection, run_id, answer)
        except MachineError as held:
            raise ApiError("NOT_CONTINUABLE", f"the run can't be continued: {held.what}", held.hint) from held
        except sqlite3.IntegrityError as error:
            if "runs.workspace" not in str(error):
                raise
            hint = "wait until it ends, or cancel it"
            raise ApiError("WORKSPACE_BUSY", f"another unfinished run is using {run.workspace}", hint) from error
        self.dispatcher.kick()
        return answer

    def no_continue(self, run: Run) -> str | None:
        """Return why a run can't be continued in its session; None if it seems possible."""
        if run.state is not State.FAILED:
            return f"it is {run.state}"
        if run.execution_mode is not Mode.INTERACTIVE or not run.is_resumable:
            return "only interactive runs with the profile `resumable` can"
        session = run.session["handle_value"] if run.session else ""
        if not session or unsafe(session):
            return "its session id isn't known"
        record = self.records.data.record(run.handle)
        if record.exists() and handle_record.read(record).turns > run.turn_index:
            return "a terminal has continued it since"
        if why := lost_workspace(run):
            return why
        store = contract_for(run.engine, run.engine_version).store
        if session_exists(store, session, run.locations, run.cwd) is False:
            return f"the engine's session store does not hold {session}"
        return None

    def cancel(self, run_id: str) -> dict[str, Any]:
        """Cancel a run, or confirm that it is canceled; a running one is `canceled` once its processes are gone.

        If it keeps a process between two turns, this returns when that is gone.
        """
        self._end_warm(run_id)
        seconds = self.kept.seconds(run_id)
        with self.store.writing() as connection:
            run = _existing(connection, run_id)
            if run.state in ENDED and run.state is not State.CANCELED:
                raise ApiError("RUN_ENDED", f"the run has already {run.state}", "there is nothing to cancel")
            if run.state in (State.QUEUED, State.WAITING_USER):
                canceled = Decision(Cause.CANCELED)
                transitions.end_run(connection, run, canceled, seconds, cancel_requested=1)
            elif run.state is State.RUNNING and not run.cancel_requested:
                runs.change(connection, run_id, cancel_requested=1)
                runs.add_event(connection, run_id, "cancel.requested", {})
            run = runs.get(connection, run_id)
            if run.state is State.CANCELED:  # before the commit: whoever reads the new state finds the record
                self.records.keep(run, run.state, run.session)
        self.dispatcher.stop(run_id)
        self.kept.end(run_id)
        return _accepted(run) | {"cancel_requested": run.cancel_requested}

    def _end_warm(self, run_id: str) -> None:
        """End the warm process of a run that is between two turns, and return when it is gone."""
        while self.kept.has_process(run_id):
            run = runs.find(self.store, run_id)
            if run is None or run.needs_process or run.state is State.RUNNING or run.state in ENDED:
                return
            self.kept.finish_waiting(run_id, BETWEEN_TURNS_SECONDS)

    def _resumed_engine(self, run_id: str) -> InstalledEngine | None:
        """Return the engine that a reply would resume; None if there is none or it is no longer known."""
        run = runs.find(self.store, run_id)
        if run is None or run.state is not State.WAITING_USER or run.needs_process:
            return None
        return self._found(run)

    def _found(self, run: Run) -> InstalledEngine | None:
        try:
            return self.engines.find(run.engine)
        except MachineError:
            return None


def _existing(connection: sqlite3.Connection, run_id: str) -> Run:
    try:
        return runs.get(connection, run_id)
    except KeyError:
        raise ApiError("RUN_NOT_FOUND", f"no run {run_id[:100]!r}", "see GET /v1/runs") from None


def _accepted(run: Run) -> dict[str, Any]:
    return {"run_id": run.run_id, "state": run.state.value, "turn_index": run.turn_index, "links": run.links}
