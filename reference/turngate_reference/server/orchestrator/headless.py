"""What takes long in a turn: making its command, running its process, judging what came of it.

Adds two texts to every prompt: where artifacts go, unless the turn can't write any, then how to end a turn and whether
the agent may ask.
"""

import logging
import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from msgspec import UNSET, Struct
from msgspec.structs import replace

from turngate import (
    EngineContract,
    Invocation,
    MachineError,
    Mode,
    RefusedError,
    Stop,
    TurnReader,
    UsageError,
    first_turn,
    mode_patch,
    resumed_turn,
)
from turngate.argv import artifacts
from turngate.files import real_path
from turngate.process.family import start_time
from turngate.turn.session_id import unfamiliar
from turngate_reference.engine.attempt import (
    Attempt,
    InstalledEngine,
    NoRoomError,
    OnOutput,
    RunOptions,
    attempt,
    ignore_output,
    traces,
)
from turngate_reference.engine.session import ObstacleError, seen_after_first_turn
from turngate_reference.server.orchestrator import workspace_files
from turngate_reference.server.orchestrator.continuation import check_session, with_session
from turngate_reference.server.orchestrator.decide import (
    INTERRUPTED,
    DataFlaw,
    Decision,
    TurnResult,
    decide,
    decide_kept,
    failed,
    ours,
)
from turngate_reference.server.orchestrator.run_files import artifacts_directory
from turngate_reference.server.orchestrator.turn_states import Answered, Failed, Judged, Plan, Played, Prepared
from turngate_reference.server.requests import RunRequest
from turngate_reference.server.store.files import TurnChanges
from turngate_reference.server.store.runs import Run, RunSession
from turngate_reference.states import RunErrorCode, State

log = logging.getLogger(__name__)


def first_prompt(launch: RunRequest, directory: Path | None) -> str:
    """Return what an engine gets on turn 1 of a requested run: skill, prompt, artifact patch, mode patch.

    `directory` is that for artifacts (None: the turn writes none, and there is no artifact patch).
    """
    return "\n\n".join(filter(None, [launch.skill, launch.prompt, *_patches(launch, directory)]))


def reply_prompt(reply: str, launch: RunRequest, directory: Path | None) -> str:
    """Return what an engine gets when the user has answered: reply, artifact patch if there is one, mode patch.

    The text before the reply keeps engines from treating a leading `/`, `@` or `-` as a command or option.
    """
    return "\n\n".join(["The user's reply:", reply, *_patches(launch, directory)])


def _patches(launch: RunRequest, directory: Path | None) -> tuple[str, ...]:
    patch = mode_patch(launch.execution_mode, launch.output_schema)
    return (patch,) if directory is None else (artifact_patch(directory), patch)


def artifact_patch(directory: Path) -> str:
    """Return where artifacts go; the same in both modes."""
    return (
        f"Write every file that is a result of your work below the directory {directory}. "
        "This overrides any other path for results that is named above."
    )


def no_artifacts(run: Run, contract: EngineContract) -> str:
    """Return why the turns of a run write no artifacts; empty if they do, as in mode auto."""
    if run.execution_mode is Mode.AUTO:
        return ""
    if not run.is_resumable:
        return "nothing limits a process that is kept between turns to their directory"
    return artifacts.no_artifacts(contract, run.launch.engine_options) or artifacts.ambiguous(real_path(run.cwd))


class TurnFailed(Exception):  # noqa: N818 - it is the end of a turn, not a fault of ours
    """A turn that has failed before its process ended, for a reason that has a code."""

    def __init__(self, code: RunErrorCode, detail: str, *, unsent: bool = False) -> None:
        super().__init__(detail)
        self.event = Failed(failed(code, detail), unsent)


def command(run: Run, engine: InstalledEngine, reply: str | None) -> Invocation:
    """Return the command of a turn in a process of its own; `reply` is None for turn 1.

    TurnFailed if the session, the prompt or an option fails a check that is possible before a process starts. Marks in
    the prompt or reply were checked when it was accepted.
    """
    contract, session = engine.contract, run.session.handle_value if run.session else ""
    try:
        if reply is not None:
            check_session(run, contract)
        directory = _artifacts(run, contract)
        options: dict[str, Any] = {
            "options": run.launch.engine_options,
            "model": run.launch.model,
            "workspace": run.cwd,
            "allow_file_marks": True,
            "artifacts": directory,
        }
        if reply is None:
            return first_turn(contract, first_prompt(run.launch, directory), run.execution_mode, **options)
        prompt = reply_prompt(reply, run.launch, directory)
        return resumed_turn(contract, prompt, run.execution_mode, session, **options)
    except RefusedError as refused:
        code = RunErrorCode.PROMPT_REFUSED if refused.subject is None else RunErrorCode.OPTION_REFUSED
        raise TurnFailed(code, str(refused)) from refused
    except ObstacleError as obstacle:
        raise TurnFailed(obstacle.code, f"before the resume: {obstacle.detail}") from obstacle


def _artifacts(run: Run, contract: EngineContract) -> Path | None:
    """Return the directory below which a turn writes artifacts; None: it writes none."""
    if no_artifacts(run, contract):
        return None
    try:
        return artifacts_directory(run)
    except OSError as error:
        what = f"the workspace can't be used: {run.artifacts}: {error.strerror}"
        code = RunErrorCode.ENGINE_UNAVAILABLE if run.turn_index == 1 else RunErrorCode.WORKSPACE_UNAVAILABLE
        raise TurnFailed(code, what) from error


class TurnWork(Struct, frozen=True):
    """What takes long in a turn, for threads outside of the owner; `data_flaw` applies an output schema.

    `interrupted` is what becomes of a run whose turn was stopped. `on_output` gets what its engine prints.
    """

    data_flaw: DataFlaw
    interrupted: Decision = INTERRUPTED
    on_output: OnOutput = ignore_output

    def prepare(self, run: Run, reply: str | None, kept: InstalledEngine | None) -> Prepared:
        """Return what a claimed turn needs; `reply` None: it is the first. `kept` is the engine of a kept process.

        TurnFailed: the turn can't begin.
        """
        raise NotImplementedError

    def play(
        self,
        plan: Plan,
        built: Invocation,
        stop: Stop,
        on_start: Callable[[int, float | None], None],
        on_text: Callable[[str], None],
    ) -> Played:
        """Run the turn's own process to its end; TurnFailed if it could not be run.

        `on_start` gets its id and its start time, which is None if it can't be read, as when it is gone already.
        """
        run = plan.run
        log.debug("%s turn %s: %s %s", run.run_id, run.turn_index, run.engine, shlex.join(built.own_arguments))
        needs_handle = run.execution_mode is Mode.INTERACTIVE and run.is_resumable
        reader = TurnReader.for_turn(built, turn_index=run.turn_index, needs_handle=needs_handle, on_text=on_text)

        def started(pid: int) -> None:
            at = None
            with suppress(psutil.Error, OSError):  # whatever fails here, the process has the prompt
                at = start_time(pid)
            on_start(pid, at)

        options = RunOptions(
            run.cwd,
            plan.env,
            stop,
            timeout=float(run.session_timeout_sec),
            tag=run.process.tag if run.process else "",
            on_start=started,
            on_output=self.on_output,
        )
        try:
            return Played(attempt(plan.engine, built, reader, traces(run.run_directory, run.turn_index), options))
        except NoRoomError as ours:
            raise TurnFailed(RunErrorCode.ORCHESTRATOR_ERROR, str(ours)) from ours
        except RefusedError as unguarded:
            raise TurnFailed(RunErrorCode.ENGINE_UNSAFE, str(unguarded), unsent=True) from unguarded
        except (MachineError, UsageError) as lacking:
            code = RunErrorCode.ENGINE_UNAVAILABLE if built.resumed else RunErrorCode.ENGINE_FAILED
            raise TurnFailed(code, str(lacking)) from lacking

    def judge(self, run: Run, plan: Plan | None, event: Played | Answered | Failed, result: TurnResult) -> Judged:
        """Decide what a turn means for its run, with the files that it changed; `result` is what is known already."""
        try:
            match event:
                case Played(done) if plan is not None:
                    decision, result = self._conclude(plan, done, result)
                case Answered(ended) if ended.failure is not None:
                    decision = failed(RunErrorCode.ENGINE_FAILED, ended.failure)
                case Answered(ended):
                    decision, said = decide_kept(
                        run, ended.final_text, declined=ended.declined, data_flaw=self.data_flaw
                    )
                    result = replace(result, outcome=said.outcome, repair_level=said.repair_level)
                case Failed(decision):
                    pass
            if decision.error is not None:
                known = replace(plan.run if plan else run, session=result.session or run.session)
                decision = replace(decision, error=with_session(known, decision.error))
        except Exception as error:
            log.exception("turn %s of %s failed because of an error in turngate", run.turn_index, run.run_id)
            decision = ours(error)
        return Judged(decision, replace(result, files=_changes(plan.run, plan.before) if plan else None))

    def _conclude(self, plan: Plan, done: Attempt, known: TurnResult) -> tuple[Decision, TurnResult]:
        """Return the next state of a run after a turn in a process of its own."""
        run, contract, result = plan.run, plan.engine.contract, done.reading.result
        decision = decide(
            result,
            run.execution_mode,
            can_wait=run.is_resumable,
            output_schema=run.launch.output_schema,
            data_flaw=self.data_flaw,
        )
        if done.interrupted:
            decision = self.interrupted
        # keep the run's first session: a different one is an error, and is reported as such
        handle = done.reading.session if run.session is None else None
        session_seen = None
        if handle and run.execution_mode is Mode.INTERACTIVE and run.is_resumable:
            is_failed = decision.state is State.FAILED
            session_seen = seen_after_first_turn(
                contract, handle.handle_value, run.locations, run.cwd, failed=is_failed
            )
        session = stored_session(contract, handle.handle_value, run.turn_index) if handle else None
        return decision, replace(
            known,
            outcome=result.outcome,
            exit_code=done.exit_code,
            repair_level=result.repair_level,
            session=session,
            session_seen=session_seen,
            reported=done.reading.reported,
        )


def stored_session(contract: EngineContract, session_id: str, turn_index: int) -> RunSession:
    """Return what the store keeps of a session id that was first seen in a turn.

    A `note` says that the id doesn't look like those that the contract knows. It is resumed all the same.
    """
    difference = unfamiliar(contract.handle, session_id)
    note = f"the session id has an unfamiliar shape: {difference}" if difference else UNSET
    return RunSession(contract.engine, contract.handle.handle_type, session_id, turn_index, note)


def _changes(run: Run, before: workspace_files.Snapshot) -> TurnChanges:
    """Return what a turn changed; an error of ours must not lose the turn itself."""
    try:
        return workspace_files.changes(run, before)
    except Exception:
        log.exception("can't compare the files of %s", run.run_id)
        return TurnChanges([], "turngate failed to compare the files; its log says why")
