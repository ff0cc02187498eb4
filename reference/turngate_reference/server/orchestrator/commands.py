"""The commands of callers: create a run, reply to its question, continue it, cancel it.

What a command changes is one transaction. Only then does the owner hear of it.

Whether a run may be created, and a reply be taken, is decided before anything changes. A request for a run is checked
in one pass, and becomes a launch. An engine may be replaced before a turn, so each turn places the options again, by
the contract that holds then.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct, structs

from turngate import ContractError, EngineContract, MachineError, Mode, RefusedError, Trust, engine_names
from turngate.argv import build
from turngate.argv.build import AutoFlagRefusedError
from turngate.argv.file_marks import check_file_marks
from turngate.argv.interactive import allowed
from turngate.argv.trust import NO_TRUST
from turngate.errors import did_you_mean
from turngate.process.instruction_files import check_instruction_files
from turngate_reference import handle_record
from turngate_reference.data_dir import HANDLE_LENGTH, locked
from turngate_reference.engine.attempt import InstalledEngine, contract_for
from turngate_reference.engine.session import ObstacleError
from turngate_reference.server.orchestrator import transitions
from turngate_reference.server.orchestrator.continuation import check_session, engine_to_resume
from turngate_reference.server.orchestrator.decide import Decision, TurnResult
from turngate_reference.server.orchestrator.engines import Engines
from turngate_reference.server.orchestrator.headless import first_prompt, reply_prompt
from turngate_reference.server.orchestrator.kept_states import Decided
from turngate_reference.server.orchestrator.owner import Owner
from turngate_reference.server.orchestrator.profiles import STICKY, no_sticky_process
from turngate_reference.server.orchestrator.run_files import Records
from turngate_reference.server.output_schema.checker import ChecksBusyError, SchemaChecker, SchemaTooCostlyError
from turngate_reference.server.requests import (
    ApiError,
    ContinueRequest,
    IdempotencyKey,
    ReplyRequest,
    RunLaunch,
    RunRequest,
)
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.events import CancelEvent, add_event
from turngate_reference.server.store.runs import Accepted, IdempotentRequest, Run, StoredQuestion, own_cwd
from turngate_reference.states import ENDED, Cause, RunErrorCode, State

_HANDLE = "0" * HANDLE_LENGTH


class Admission(Struct, frozen=True):
    """What requests are checked against: engines, schemas, directories, and what the operator allows.

    `runs` is the directory of all runs. `workspace_root` holds the directories that callers may name (None: none).
    """

    engines: Engines
    schemas: SchemaChecker
    runs: Path
    workspace_root: Path | None
    server_env: Mapping[str, str]
    trust: Trust = NO_TRUST

    def launch(self, request: RunRequest) -> tuple[RunLaunch, Path | None]:
        """Return the launch of a run and its workspace (None: its own); ApiError if it is known to fail."""
        workspace = resolved_workspace(request.workspace, self.workspace_root) if request.workspace else None
        if request.output_schema is not None:
            self._check_schema(request.output_schema)
        engine = self._engine(request.engine, workspace)
        self._check_engine(request, engine, workspace)
        launch = RunLaunch(
            **structs.asdict(request),
            trusted_workspace=workspace is not None and self.trust.trusts(workspace),
            unsafe_allowed=request.engine in self.trust.unsafe_engines,
        )
        return launch, workspace

    def _check_engine(self, request: RunRequest, engine: InstalledEngine, workspace: Path | None) -> None:
        """Reject what the engine can't do, or what nothing makes safe."""
        contract, mode = engine.contract, request.execution_mode
        options, model = request.engine_options, request.model
        sticky = request.interactive_profile == STICKY and contract.sticky.transport != "none"
        listed = {"allowed": allowed(contract, mode, contract.sticky.options if sticky else None)}
        # the run's own directory doesn't exist yet, but its path has this length
        place = workspace or own_cwd(self.runs / f"00000000T000000Z-{request.engine}-{_HANDLE}")
        refused = _refused_option(contract, request, place)
        if isinstance(refused, AutoFlagRefusedError):
            raise ApiError("AUTO_FLAG_REFUSED", refused.what, refused.hint, {"flag": refused.subject} | listed)
        with _unsafe_is_an_error():
            self.trust.check(contract, mode, workspace, self.server_env, kept=sticky)
            if workspace is not None:
                check_instruction_files(self.trust.applied(contract, workspace), workspace, self.server_env)
        if mode is Mode.INTERACTIVE:
            self._check_profile(engine, request.interactive_profile)
        with _refusals_are_errors(listed):
            if mode is Mode.INTERACTIVE and not request.allow_file_marks:
                check_file_marks(contract, request.prompt, place)
            if refused is not None:
                raise refused
            # a path as long as that of the run's artifacts
            prompt = first_prompt(request, place / "artifacts" / _HANDLE)
            build.prompt_channel(contract, prompt)
            if sticky:
                build.check_kept_prompt(contract, prompt)
                build.sticky_options(contract, mode, options, model, place)

    def engine_to_resume(self, run: Run) -> InstalledEngine:
        """Return the engine that can resume the session of a run in its workspace now; ObstacleError if none can."""
        engine = engine_to_resume(run, self.engines.find)
        try:
            check_instruction_files(self.trust.applied(engine.contract, run.cwd), run.cwd, run.locations)
        except RefusedError as linked:
            raise ObstacleError(RunErrorCode.ENGINE_UNSAFE, linked.what, linked.hint) from linked
        return engine

    def check_reply(
        self, run: Run, question: StoredQuestion, reply: ReplyRequest, engine: InstalledEngine | None
    ) -> None:
        """Reject a reply that the engine can't take; None: the run doesn't resume one, or its session is gone."""
        response = reply.response
        if question.request_id is not None:
            if response not in question.question.options:
                hint = f"reply with one of {', '.join(map(repr, question.question.options))}"
                raise ApiError("REPLY_NOT_AN_OPTION", f"{response[:100]!r} is not one of the options", hint)
            return
        self.check_message(run, response, engine, allow_file_marks=reply.allow_file_marks)

    def check_message(self, run: Run, message: str, engine: InstalledEngine | None, *, allow_file_marks: bool) -> None:
        """Reject a text for the next turn of a run that the engine can't take; None: it resumes none."""
        # a sticky process has its contract even if its engine was uninstalled
        contract = engine.contract if engine is not None else contract_for(run.engine, run.engine_version)
        with _refusals_are_errors({}):
            if not allow_file_marks:
                check_file_marks(contract, message, run.cwd)
            prompt = reply_prompt(message, run.launch, run.artifacts)
            if run.is_sticky:
                build.check_kept_prompt(contract, prompt)
            if engine is not None:
                build.prompt_channel(contract, prompt)
                options, model = run.launch.engine_options, run.launch.model
                build.turn_options(contract, run.execution_mode, options, model, run.cwd)
        if engine is not None:
            with _unsafe_is_an_error():
                self.trust.check(contract, run.execution_mode, run.workspace, run.locations)

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

    def _engine(self, name: str, workspace: Path | None) -> InstalledEngine:
        if name not in engine_names():
            hint = did_you_mean(name[:100], engine_names(), f"engines: {', '.join(engine_names())}")
            raise ApiError("UNKNOWN_ENGINE", f"no contract for engine {name[:100]!r}", hint)
        try:
            return self.engines.find(name, workspace)
        except MachineError as absent:
            raise ApiError("ENGINE_NOT_INSTALLED", absent.what, absent.hint) from absent
        except ContractError as uncovered:
            raise ApiError(
                "ENGINE_NOT_INSTALLED", str(uncovered), "install a release that the contract covers"
            ) from uncovered


@contextmanager
def _refusals_are_errors(listed: Mapping[str, Any]) -> Iterator[None]:
    """Answer a request whose prompt or option is refused with the code for it; `listed` is what options may be."""
    try:
        yield
    except RefusedError as refused:
        if refused.subject is None:
            raise ApiError("PROMPT_REFUSED", refused.what, refused.hint) from refused
        raise ApiError("OPTION_REFUSED", refused.what, refused.hint, {"option": refused.subject, **listed}) from refused


@contextmanager
def _unsafe_is_an_error() -> Iterator[None]:
    """Answer a request whose turn can't be made safe with ENGINE_UNSAFE."""
    try:
        yield
    except RefusedError as refused:
        breaks = {"clause": refused.subject} if refused.subject else {}
        raise ApiError("ENGINE_UNSAFE", refused.what, refused.hint, breaks) from refused


def _refused_option(contract: EngineContract, request: RunRequest, place: Path) -> RefusedError | None:
    """Return why the engine can't be passed the options of a request; None if it can."""
    try:
        build.turn_options(contract, request.execution_mode, request.engine_options, request.model, place)
    except RefusedError as refused:
        return refused
    return None


def resolved_workspace(asked: str, root: Path | None) -> Path:
    """Return the real path of a caller's directory, with symbolic links followed.

    A relative path counts from the root. Raises ApiError for a directory that this server does not offer.
    """
    if root is None:
        raise _refused("this server has no workspace root", "start the server with --workspace-root DIR")
    name = repr(asked[:200])
    try:
        real_root = root.resolve(strict=True)
        workspace = (real_root / asked).resolve(strict=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise _refused(f"directory {name} does not exist", "create it first") from error
    if real_root not in workspace.parents:
        raise _refused(f"{name} is not inside the workspace root", "use a directory inside it")
    if not workspace.is_dir():
        raise _refused(f"{name} is not a directory", "use a directory")
    try:
        str(workspace).encode()
    except UnicodeEncodeError as odd:
        raise _refused(f"the resolved path of {name} isn't valid UTF-8", "rename the directory") from odd
    return workspace


def _refused(detail: str, hint: str) -> ApiError:
    return ApiError("WORKSPACE_REFUSED", detail, hint)


class Commands(Struct, frozen=True):
    """Everything that changes runs from outside."""

    store: Store
    records: Records
    admission: Admission
    owner: Owner

    def create(self, request: RunRequest, key: IdempotencyKey | None) -> Accepted:
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
                        answer = structs.replace(_accepted(run), handle=handle)
                        once.keep(connection, directory.name, answer)
                if before is not None:
                    self.records.discard(handle, directory)
                    return before
        except sqlite3.IntegrityError as error:
            if "runs.workspace" not in str(error):
                raise
            hint = "wait until it ends, cancel it, or use another directory"
            raise ApiError("WORKSPACE_BUSY", f"another unfinished run is using {workspace}", hint) from error
        self.owner.kick()
        return answer

    def reply(self, run_id: str, reply: ReplyRequest, key: IdempotencyKey | None) -> Accepted:
        """Take the user's reply, and queue the run for its next turn; ApiError: nothing has changed.

        If the session is gone, the next turn fails the run, which keeps the reply.
        """
        once = IdempotentRequest(f"POST /v1/runs/{run_id}/interaction/reply", key)
        judged, refused = self._judged(run_id, reply)
        with self.store.writing() as connection:
            if (before := once.answer(connection)) is not None:
                return before
            run = _existing(connection, run_id)
            if run.state is not State.WAITING_USER:
                why = f"the run isn't waiting for a reply: its state is {run.state}"
                if runs.is_answered(connection, run_id, reply.interaction_id):
                    why = f"this question was already answered, and the run is {run.state}"
                raise ApiError("NOT_WAITING", why, f"read {run.links['self']}")
            if run.pending_interaction_id != reply.interaction_id:
                hint = f"read {run.links['interaction']} and reply to the open question"
                raise ApiError("INTERACTION_STALE", f"{reply.interaction_id[:100]!r} is not the open question", hint)
            question = runs.question_in(connection, reply.interaction_id)
            if judged is None or judged.pending_interaction_id != reply.interaction_id:
                raise ApiError("NOT_WAITING", "the question was opened again just now", "send the reply again")
            if refused is not None:
                raise refused
            transitions.take_reply(connection, run, reply.response, permission=question.request_id is not None)
            run = runs.get(connection, run_id)
            answer = structs.replace(_accepted(run), interaction_id=reply.interaction_id)
            once.keep(connection, run_id, answer)
        if run.state is State.QUEUED:
            self.owner.kick()
        elif question.request_id is not None:
            self.owner.decide(run_id, Decided(question.request_id, reply.response))
        else:
            self.owner.proceed(run)
        return answer

    def continue_run(self, run_id: str, request: ContinueRequest, key: IdempotencyKey | None) -> Accepted:
        """Queue a run that has ended for another turn in its session; ApiError: nothing has changed."""
        once = IdempotentRequest(f"POST /v1/runs/{run_id}/continue", key)
        with self.store.writing() as connection:
            if (before := once.answer(connection)) is not None:
                return before
            run = _existing(connection, run_id)
        try:
            with locked(self.records.data.lock(run.handle), run.handle):
                if refused := self.no_continue(run):
                    raise refused
                try:
                    engine = self.admission.engine_to_resume(run)
                except ObstacleError as obstacle:
                    raise _not_continuable(obstacle) from obstacle
                self.admission.check_message(run, request.message, engine, allow_file_marks=request.allow_file_marks)
                with self.store.writing() as connection:
                    if (before := once.answer(connection)) is not None:
                        return before
                    if runs.get(connection, run_id) != run:
                        raise ApiError("NOT_CONTINUABLE", "the run has changed meanwhile", "look at it again")
                    transitions.continue_ended(connection, self.records, run, request.message)
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
        self.owner.kick()
        return answer

    def no_continue(self, run: Run) -> ApiError | None:
        """Return why a run can't be continued in its session; None if it seems possible, whatever the engine is."""
        if run.state not in ENDED:
            hint = "reply to its question" if run.state is State.WAITING_USER else "wait until it ends"
            return ApiError("NOT_CONTINUABLE", f"the run can't be continued: it is {run.state}", hint)
        if run.execution_mode is not Mode.INTERACTIVE or not run.is_resumable:
            return _never_continuable("only interactive runs with the profile `resumable` can")
        record = self.records.data.record(run.handle)
        if record.exists() and handle_record.read(record).turns > run.turn_index:
            return _never_continuable("a terminal has continued it since")
        try:
            check_session(run, contract_for(run.engine, run.engine_version))
        except ObstacleError as obstacle:
            return _not_continuable(obstacle)
        return None

    def cancel(self, run_id: str) -> Accepted:
        """Cancel a run, or confirm that it is canceled; a running one is `canceled` once its processes are gone."""
        seconds = self.owner.seconds(run_id)
        with self.store.writing() as connection:
            run = _existing(connection, run_id)
            if run.state in ENDED and run.state is not State.CANCELED:
                raise ApiError("RUN_ENDED", f"the run has already {run.state}", "there is nothing to cancel")
            if run.state in (State.QUEUED, State.WAITING_USER):
                runs.change(connection, run_id, cancel_requested=1)
                result = TurnResult(seconds, process=run.process)
                transitions.end(connection, self.records, run, Decision(Cause.CANCELED), result)
            elif run.state is State.RUNNING and not run.cancel_requested:
                runs.change(connection, run_id, cancel_requested=1)
                add_event(connection, run_id, CancelEvent())
            run = runs.get(connection, run_id)
        self.owner.stop(run)
        return structs.replace(_accepted(run), cancel_requested=run.cancel_requested)

    def _judged(self, run_id: str, reply: ReplyRequest) -> tuple[Run | None, ApiError | None]:
        """Return a run, and why its engine can't take a reply to its open question; None: nothing speaks against it.

        This reads files and may run the engine, so it comes before the transaction.
        """
        run, question = runs.find(self.store, run_id), runs.question(self.store, reply.interaction_id)
        if run is None or question is None or run.pending_interaction_id != reply.interaction_id:
            return run, None
        try:
            self.admission.check_reply(run, question, reply, self._resumed_engine(run))
        except ApiError as refused:
            return run, refused
        return run, None

    def _resumed_engine(self, run: Run) -> InstalledEngine | None:
        """Return the engine that resumes a run; None: none does, or the session is gone. ApiError: it can't now."""
        if run.is_sticky:
            return None
        try:
            return self.admission.engine_to_resume(run)
        except ObstacleError as obstacle:
            if obstacle.is_final:
                return None
            raise ApiError(obstacle.code, obstacle.detail, obstacle.hint) from obstacle


def _existing(connection: sqlite3.Connection, run_id: str) -> Run:
    try:
        return runs.get(connection, run_id)
    except KeyError:
        raise ApiError("RUN_NOT_FOUND", f"no run {run_id[:100]!r}", "see GET /v1/runs") from None


def _not_continuable(obstacle: ObstacleError) -> ApiError:
    if obstacle.is_final:
        return _never_continuable(obstacle.detail)
    return ApiError(obstacle.code, obstacle.detail, obstacle.hint)


def _never_continuable(why: str) -> ApiError:
    return ApiError("NOT_CONTINUABLE", f"the run can't be continued: {why}", "start a new run")


def _accepted(run: Run) -> Accepted:
    return Accepted(run_id=run.run_id, state=run.state, turn_index=run.turn_index, links=run.links)
