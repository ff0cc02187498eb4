"""The commands of callers: create a run, reply to its question, cancel it. Each is one transaction."""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turngate import ContractError, EngineContract, EnvironmentFailed, Mode, Outcome, RefusedError, engine_names
from turngate.argv import build
from turngate.argv.auto_flags import auto_flags_in
from turngate.argv.file_marks import check_file_marks
from turngate.argv.interactive import allowed
from turngate.argv.trust import NO_TRUST, Trust
from turngate.errors import did_you_mean
from turngate_reference.engine.lookup import InstalledEngine, contract_for
from turngate_reference.server.api_errors import ApiError
from turngate_reference.server.orchestrator import transitions
from turngate_reference.server.orchestrator.decide import Decision
from turngate_reference.server.orchestrator.dispatcher import Dispatcher
from turngate_reference.server.orchestrator.engines import Engines
from turngate_reference.server.orchestrator.headless import first_prompt, reply_prompt
from turngate_reference.server.orchestrator.profiles import STICKY, no_sticky_process
from turngate_reference.server.orchestrator.run_files import Records, resolved_workspace
from turngate_reference.server.orchestrator.sticky_runs import StickyRuns
from turngate_reference.server.orchestrator.warm_processes import WarmProcesses
from turngate_reference.server.orchestrator.warm_wait import no_warm_wait
from turngate_reference.server.output_schema.checker import ChecksBusyError, SchemaChecker, SchemaTooCostlyError
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.idempotency import IdempotentRequest
from turngate_reference.server.store.runs import Run, StoredQuestion, own_cwd
from turngate_reference.states import ENDED, Cause, State

BETWEEN_TURNS_SECONDS = 1.0  # a turn whose question is stored has ended its thread well before
_DEFAULTS: dict[str, Any] = {"execution_mode": Mode.AUTO.value, "engine_options": [], "session_timeout_sec": 1200}


@dataclass(frozen=True, slots=True)
class Commands:
    """Everything that changes runs from outside; requests have the shapes of `openapi.yaml`, and are validated."""

    store: Store
    records: Records
    engines: Engines
    dispatcher: Dispatcher
    sticky: StickyRuns
    warm: WarmProcesses
    schemas: SchemaChecker
    workspace_root: Path | None
    server_env: Mapping[str, str]
    trust: Trust = NO_TRUST

    def create(self, request: dict[str, Any], key: str | None) -> dict[str, Any]:
        """Queue a new run; ApiError says why it is refused."""
        once = IdempotentRequest("POST /v1/runs", key, request)
        with self.store.writing() as connection:
            if (before := once.answer(connection)) is not None:
                return before
        request = _DEFAULTS | request
        workspace = resolved_workspace(request["workspace"], self.workspace_root) if request.get("workspace") else None
        self._check(request, workspace)
        request |= self._allowed_by_operator(request["engine"], workspace)
        try:
            with self.records.created(request, workspace) as (handle, directory):
                with self.store.writing() as connection:
                    before = once.answer(connection)
                    if before is None:
                        run = runs.insert(connection, handle, directory, request, workspace)
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

    def reply(self, run_id: str, request: dict[str, Any], key: str | None) -> dict[str, Any]:
        """Take the user's reply, and queue the run for its next turn; ApiError: nothing has changed."""
        once = IdempotentRequest(f"POST /v1/runs/{run_id}/interaction/reply", key, request)
        interaction_id, response = request["interaction_id"], request["response"]
        engine = self._resumed_engine(run_id)
        with self.store.writing() as connection:
            if (before := once.answer(connection)) is not None:
                return before
            run = _existing(connection, run_id)
            if run.state is not State.WAITING_USER:
                raise ApiError(
                    "NOT_WAITING", f"the run is {run.state} and isn't waiting for a reply", "check its state"
                )
            if run.pending_interaction_id != interaction_id:
                hint = f"read {run.links['interaction']} and reply to the open question"
                raise ApiError("INTERACTION_STALE", f"{interaction_id[:100]!r} is not the open question", hint)
            question = runs.question_in(connection, interaction_id)
            self._check_reply(run, question, request, engine)
            transitions.take_reply(connection, run, response, permission=question.request_id is not None)
            answer = _accepted(runs.get(connection, run_id)) | {"interaction_id": interaction_id}
            once.keep(connection, run_id, answer)
        if answer["state"] == State.QUEUED:
            self.dispatcher.kick()
        else:
            self.sticky.replied(run_id, question, response)
        return answer

    def cancel(self, run_id: str) -> dict[str, Any]:
        """Cancel a run, or confirm that it is canceled; a running one is `canceled` once its processes are gone.

        If it keeps a process between two turns, this returns when that is gone.
        """
        self._end_kept(run_id)
        seconds, turn_ended = self.sticky.seconds(run_id), False
        with self.store.writing() as connection:
            run = _existing(connection, run_id)
            if run.state in ENDED and run.state is not State.CANCELED:
                raise ApiError("RUN_ENDED", f"the run has already {run.state}", "there is nothing to cancel")
            if run.state in (State.QUEUED, State.WAITING_USER):
                canceled = Decision(Cause.CANCELED)
                turn_ended = transitions.end_run(connection, run, canceled, seconds, cancel_requested=1)
            elif run.state is State.RUNNING and not run.cancel_requested:
                runs.change(connection, run_id, cancel_requested=1)
                runs.add_event(connection, run_id, "cancel.requested", {})
            run = runs.get(connection, run_id)
            if run.state is State.CANCELED:  # before the commit: whoever reads the new state finds the record
                self.records.keep(run, run.state, run.session)
        if turn_ended:
            self.sticky.observe(run.engine, Outcome.ERROR, seconds)
        self.dispatcher.stop(run_id)
        self.sticky.end(run_id)
        self.warm.end(run_id)
        return _accepted(run) | {"cancel_requested": run.cancel_requested}

    def _end_kept(self, run_id: str) -> None:
        """End the process of a run that is between two turns, and return when it is gone."""
        while self.warm.has_process(run_id):
            run = runs.find(self.store, run_id)
            if run is None or run.state is State.RUNNING or run.state in ENDED:
                return
            self.warm.finish_waiting(run_id, BETWEEN_TURNS_SECONDS)

    def _check(self, request: dict[str, Any], workspace: Path | None) -> None:
        """Reject a run that is known to fail, before anything is created."""
        if (schema := request.get("output_schema")) is not None:
            self._check_schema(schema)
        engine = self._engine(request["engine"])
        mode, options = Mode(request["execution_mode"]), request["engine_options"]
        contract, model = engine.contract, request.get("model")
        sticky = request.get("interactive_profile") == STICKY and contract.sticky.transport != "none"
        listed = {"allowed": allowed(contract, mode, contract.sticky.options if sticky else None)}
        if mode is Mode.INTERACTIVE and (widening := auto_flags_in(options, contract)):
            detail = f"{widening[0]} lets {contract.engine} act without asking"
            members = {"flag": widening[0]} | listed
            raise ApiError("AUTO_FLAG_REFUSED", detail, "remove it, or use mode auto", members)
        self._check_safety(contract, mode, workspace, self.server_env, kept=sticky)
        # the run's own directory doesn't exist yet
        place = workspace or own_cwd(self.records.data.runs / "new")
        if mode is Mode.INTERACTIVE:
            self._check_profile(engine, request.get("interactive_profile"))
        if request.get("warm_wait_sec"):
            _check_warm_wait(contract, request, place)
        try:
            if mode is Mode.INTERACTIVE and not request.get("allow_file_marks"):
                check_file_marks(contract, request["prompt"], place)
            build.turn_options(contract, mode, options, model, place)
            build.prompt_channel(contract, first_prompt(request, self.records.data.runs))
            if sticky:
                build.sticky_options(contract, mode, options, model, place)
        except RefusedError as refused:
            if refused.subject is None:
                raise ApiError("PROMPT_REFUSED", refused.what, refused.hint) from refused
            raise ApiError(
                "OPTION_REFUSED", refused.what, refused.hint, {"option": refused.subject} | listed
            ) from refused

    def _allowed_by_operator(self, engine: str, workspace: Path | None) -> dict[str, bool]:
        """Return what a run says of its operator, who trusts its workspace, or its engine although that is unsafe."""
        trusted = workspace is not None and self.trust.trusts(workspace)
        said = {"trusted_workspace": trusted, "unsafe_allowed": engine in self.trust.unsafe_engines}
        return {name: True for name, is_so in said.items() if is_so}

    def _check_reply(
        self, run: Run, question: StoredQuestion, request: dict[str, Any], engine: InstalledEngine | None
    ) -> None:
        """Reject a reply that the engine can't take; a missing engine (None) fails the turn later, not the reply."""
        response: str = request["response"]
        if question.request_id is not None:
            if response not in question.question["options"]:
                hint = f"reply with one of {', '.join(map(repr, question.question['options']))}"
                raise ApiError("REPLY_NOT_AN_OPTION", f"{response[:100]!r} is not one of the options", hint)
            return
        try:
            if not request.get("allow_file_marks"):
                check_file_marks(self._contract(run, engine), response, run.cwd)
            if engine is not None:
                build.prompt_channel(engine.contract, reply_prompt(response, run.request, run.artifacts))
        except RefusedError as refused:
            raise ApiError("PROMPT_REFUSED", refused.what, refused.hint) from refused
        if engine is not None:
            self._check_safety(engine.contract, run.mode, run.workspace, run.locations)

    def _check_safety(
        self,
        contract: EngineContract,
        mode: Mode,
        workspace: Path | None,
        env: Mapping[str, str | None],
        *,
        kept: bool = False,
    ) -> None:
        try:
            self.trust.check(contract, mode, workspace, env, kept=kept)
        except RefusedError as refused:
            raise ApiError("ENGINE_UNSAFE", refused.what, refused.hint, {"clause": refused.subject}) from refused

    def _contract(self, run: Run, engine: InstalledEngine | None) -> EngineContract:
        """Return the contract of a run's engine, which a sticky process has even if it was uninstalled."""
        return engine.contract if engine is not None else contract_for(run.engine, run.engine_version)

    def _check_profile(self, engine: InstalledEngine, asked: str | None) -> None:
        """Reject an interactive run that needs a sticky process of an engine that can't have one."""
        if not (why := no_sticky_process(engine.contract)):
            return
        profile, able = self.engines.interactive_profile(engine, asked)
        if profile.kind != STICKY:
            return
        hint = (
            "use mode auto, or an engine for which GET /v1/engines shows `sticky.supported` or `capability.supported`"
        )
        if able.supported:
            hint = "leave out `interactive_profile`: the engine can resume its sessions"
        detail = (
            f"the run needs a sticky process ({profile.reason}), and {engine.contract.engine} can't have one: {why}"
        )
        raise ApiError("PROFILE_UNAVAILABLE", detail, hint)

    def _check_schema(self, schema: dict[str, Any]) -> None:
        try:
            flaw = self.schemas.schema_flaw(schema)
        except SchemaTooCostlyError as costly:
            hint = "make it smaller, and avoid repeated references to the same part"
            raise ApiError("SCHEMA_TOO_COSTLY", str(costly), hint) from costly
        except ChecksBusyError as busy:
            raise ApiError("SCHEMA_CHECKS_BUSY", str(busy), "retry later") from busy
        if flaw:
            hint = "use a JSON Schema (draft 2020-12) without external references"
            raise ApiError("INVALID_OUTPUT_SCHEMA", flaw, hint)

    def _engine(self, name: str) -> InstalledEngine:
        if name not in engine_names():
            hint = did_you_mean(name[:100], engine_names(), f"engines: {', '.join(engine_names())}")
            raise ApiError("UNKNOWN_ENGINE", f"no contract for engine {name[:100]!r}", hint)
        try:
            return self.engines.find(name)
        except EnvironmentFailed as absent:
            raise ApiError("ENGINE_NOT_INSTALLED", absent.what, absent.hint) from absent
        except ContractError as uncovered:
            raise ApiError(
                "ENGINE_NOT_INSTALLED", str(uncovered), "install a release that the contract covers"
            ) from uncovered

    def _resumed_engine(self, run_id: str) -> InstalledEngine | None:
        """Return the engine that a reply would resume; None if there is none or it is no longer known."""
        run = runs.find(self.store, run_id)
        if run is None or run.state is not State.WAITING_USER or run.needs_process:
            return None
        try:
            return self.engines.find(run.engine)
        except EnvironmentFailed:
            return None


def _check_warm_wait(contract: EngineContract, request: dict[str, Any], place: Path) -> None:
    """Reject a run that asks to keep its process, but can't."""
    why = no_warm_wait(contract, request, place)
    if request["execution_mode"] != Mode.INTERACTIVE or request.get("interactive_profile") == STICKY:
        why = "it is for interactive runs without a sticky process"
    if why is not None:
        raise ApiError("WARM_WAIT_UNAVAILABLE", f"warm_wait_sec: {why}", "remove it, or set it to 0")


def _existing(connection: sqlite3.Connection, run_id: str) -> Run:
    try:
        return runs.get(connection, run_id)
    except KeyError:
        raise ApiError("RUN_NOT_FOUND", f"no run {run_id[:100]!r}", "see GET /v1/runs") from None


def _accepted(run: Run) -> dict[str, Any]:
    return {"run_id": run.run_id, "state": run.state.value, "turn_index": run.turn_index, "links": run.links}
