"""Runs one turn of a run in a separate process, for the server or for `turngate resume` on a waiting run.

Adds two texts to every prompt: where artifacts go, unless the turn can't write any, then how to end a turn and whether
the agent may ask.
"""

import logging
import shlex
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

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
from turngate.process import start_time
from turngate.process.session_store import session_exists
from turngate.turn.session_id import unfamiliar
from turngate_reference.engine.attempt import Attempt, InstalledEngine, NoRoomError, RunOptions, attempt, traces
from turngate_reference.server.orchestrator import transitions, workspace_files
from turngate_reference.server.orchestrator.continuation import ObstacleError, check_session
from turngate_reference.server.orchestrator.decide import DataFlaw, Decision, TurnResult, decide, failed
from turngate_reference.server.orchestrator.run_files import Records, artifacts_directory
from turngate_reference.server.requests import RunRequest
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Outbox
from turngate_reference.server.store.events import TextEvent, add_event
from turngate_reference.server.store.files import TurnChanges
from turngate_reference.server.store.runs import ProcessNote, Run, RunSession
from turngate_reference.states import Delivery, RunErrorCode, State

log = logging.getLogger(__name__)

MAX_TEXTS = 1000
MAX_TEXT = 64 * 2**10


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

    def __init__(self, code: RunErrorCode, detail: str) -> None:
        super().__init__(detail)
        self.decision = failed(code, detail)


class HeadlessTurn(Struct, frozen=True):
    """What a turn needs; `env` is the engine's environment except PWD, `on_text` gets the agent's texts.

    `data_flaw` applies an output schema. What is written while the engine runs goes through `outbox`.
    """

    outbox: Outbox
    run: Run
    engine: InstalledEngine
    env: Mapping[str, str]
    on_text: Callable[[str], None]
    data_flaw: DataFlaw

    def command(self, reply: str | None) -> Invocation:
        """Return the command of the turn; `reply` is None for turn 1.

        TurnFailed if the session, the prompt or an option fails a check that is possible before a process starts. Marks
        in the prompt or reply were checked when it was accepted.
        """
        run, contract = self.run, self.engine.contract
        options, model = run.launch.engine_options, run.launch.model
        try:
            if reply is None:
                directory = self._artifacts()
                prompt = first_prompt(run.launch, directory)
                return first_turn(
                    contract,
                    prompt,
                    run.execution_mode,
                    options=options,
                    model=model,
                    workspace=run.cwd,
                    allow_file_marks=True,
                    artifacts=directory,
                )
            check_session(run, contract)
            session = run.session.handle_value if run.session else ""
            directory = self._artifacts()
            prompt = reply_prompt(reply, run.launch, directory)
            return resumed_turn(
                contract,
                prompt,
                run.execution_mode,
                session,
                options=options,
                model=model,
                workspace=run.cwd,
                allow_file_marks=True,
                artifacts=directory,
            )
        except RefusedError as refused:
            code = RunErrorCode.PROMPT_REFUSED if refused.subject is None else RunErrorCode.OPTION_REFUSED
            raise TurnFailed(code, str(refused)) from refused
        except ObstacleError as obstacle:
            raise TurnFailed(obstacle.code, f"before the resume: {obstacle.detail}") from obstacle

    def _artifacts(self) -> Path | None:
        """Return the directory below which the turn writes artifacts; None: it writes none."""
        if no_artifacts(self.run, self.engine.contract):
            return None
        try:
            return artifacts_directory(self.run)
        except OSError as error:
            what = f"the workspace can't be used: {self.run.artifacts}: {error.strerror}"
            code = RunErrorCode.ENGINE_UNAVAILABLE if self.run.turn_index == 1 else RunErrorCode.WORKSPACE_UNAVAILABLE
            raise TurnFailed(code, what) from error

    def play(self, built: Invocation, stop: Stop) -> Attempt:
        """Run the engine to its end and record its process in the store; TurnFailed if it could not be run."""
        run = self.run
        log.debug("%s turn %s: %s %s", run.run_id, run.turn_index, run.engine, shlex.join(built.own_arguments))
        needs_handle = run.execution_mode is Mode.INTERACTIVE and run.is_resumable
        is_started, version = False, self.engine.version
        reader = TurnReader.for_turn(built, turn_index=run.turn_index, needs_handle=needs_handle, on_text=self.on_text)

        def note_process(pid: int) -> None:
            nonlocal is_started
            is_started = True
            with suppress(psutil.NoSuchProcess):
                noted = replace(run.process or ProcessNote(""), pid=pid, started_at=start_time(pid), unsent=False)
                self.outbox.put(lambda connection: runs.change(connection, run.run_id, process=noted))
            self.outbox.put(lambda connection: transitions.note_start(connection, run, built.own_arguments, version))
            self.outbox.put(lambda connection: transitions.note_delivery(connection, run, Delivery.NEW_PROCESS))

        options = RunOptions(
            run.cwd,
            self.env,
            stop,
            timeout=float(run.session_timeout_sec),
            tag=run.process.tag if run.process else "",
            on_start=note_process,
        )
        try:
            done = attempt(self.engine, built, reader, traces(run.run_directory, run.turn_index), options)
        except NoRoomError as ours:
            self._note_unsent(is_started=is_started)
            raise TurnFailed(RunErrorCode.ORCHESTRATOR_ERROR, str(ours)) from ours
        except RefusedError as unguarded:
            self._note_unsent(is_started=False)
            raise TurnFailed(RunErrorCode.ENGINE_UNSAFE, str(unguarded)) from unguarded
        except (MachineError, UsageError) as lacking:
            self._note_unsent(is_started=is_started)
            code = RunErrorCode.ENGINE_UNAVAILABLE if built.resumed else RunErrorCode.ENGINE_FAILED
            raise TurnFailed(code, str(lacking)) from lacking
        self._note_unsent(is_started=is_started)
        return done

    def _note_unsent(self, *, is_started: bool) -> None:
        """Take back the note that a process gets the reply, if none was started."""
        if not is_started:
            self.outbox.put(lambda connection: transitions.note_sent(connection, self.run.run_id, sent=False))

    def conclude(self, done: Attempt, interrupted: Decision) -> tuple[Decision, TurnResult]:
        """Return the next state of the run, which is `interrupted` if the turn was stopped from outside."""
        run, result = self.run, done.reading.result
        decision = decide(
            result,
            run.execution_mode,
            can_wait=run.is_resumable,
            output_schema=run.launch.output_schema,
            data_flaw=self.data_flaw,
        )
        if done.interrupted:
            decision = interrupted
        # keep the run's first session: a different one is an error, and is reported as such
        handle = done.reading.session if run.session is None else None
        session_seen = None
        if handle and run.execution_mode is Mode.INTERACTIVE and run.is_resumable:
            is_there = session_exists(self.engine.contract.store, handle.handle_value, run.locations, run.cwd) is True
            # an engine that failed may have stored none, which says nothing about where it would
            session_seen = is_there or (None if decision.state is State.FAILED else False)
        session = stored_session(self.engine.contract, handle.handle_value, run.turn_index) if handle else None
        return decision, TurnResult(
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


def complete(
    outbox: Outbox,
    records: Records,
    run: Run,
    turn: Callable[[], tuple[Decision, TurnResult]],
    left: Callable[[], ProcessNote | None] = lambda: None,
    end_left: Callable[[], None] = lambda: None,
) -> TurnResult:
    """Run a claimed turn and save its result, success or failure.

    `outbox` holds the unwritten data of the turn, and is closed. `left` returns the note of the process that the turn
    has left, and `end_left` ends it. RunHasEnded: the result can't be saved, since the run was ended meanwhile.
    """
    before = workspace_files.snapshot(run, with_texts=True)
    start = time.monotonic()
    try:
        decision, result = turn()
    except transitions.RunHasEnded:
        with suppress(sqlite3.Error):
            transitions.record_files(outbox.store, run, _changes(run, before))
        outbox.close()
        return TurnResult(time.monotonic() - start)
    except TurnFailed as early:
        decision, result = early.decision, TurnResult()
    except Exception as error:
        log.exception("turn %s of %s failed because of an error in turngate", run.turn_index, run.run_id)
        decision, result = failed(RunErrorCode.ORCHESTRATOR_ERROR, f"{type(error).__name__}: {error}"), TurnResult()
    seconds = time.monotonic() - start
    result = replace(result, seconds=seconds, process=left(), files=_changes(run, before))
    try:
        transitions.end_turn_eventually(outbox, records, run, decision, result, end_left)
    finally:
        outbox.close()
    return result


def _changes(run: Run, before: workspace_files.Snapshot) -> TurnChanges:
    """Return what a turn changed; an error of ours must not lose the turn itself."""
    try:
        return workspace_files.changes(run, before)
    except Exception:
        log.exception("can't compare the files of %s", run.run_id)
        return TurnChanges([], "turngate failed to compare the files; its log says why")


def text_events(outbox: Outbox, run: Run) -> Callable[[str], None]:
    """Return a function that stores the agent's texts as events, within limits, and never waits for the store."""
    left, left_out = MAX_TEXTS, 0

    def add(text: str) -> None:
        nonlocal left, left_out
        left -= 1
        if left < 0:
            return
        said = TextEvent(run.turn_index, text[:MAX_TEXT])
        if not outbox.put(lambda connection: add_event(connection, run.run_id, said), len(said.text)):
            left_out += 1
            log.warning(
                "%s: %d texts of turn %d are missing from its events: the store was unavailable; the trace is complete",
                run.run_id,
                left_out,
                run.turn_index,
            )

    return add
