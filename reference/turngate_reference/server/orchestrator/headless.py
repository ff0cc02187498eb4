"""One turn of a run in a process of its own, run by the server, or by `turngate resume` for a waiting run."""

import logging
import re
import shlex
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from turngate.argv import build
from turngate.argv.build import Invocation
from turngate.errors import EnvironmentFailed, RefusedError
from turngate.model import Mode
from turngate.process import Ended, Stop, session_exists, start_time
from turngate.turn.read import TurnReader
from turngate_reference.engine.attempt import Attempt, NoRoom, RunOptions, attempt, traces
from turngate_reference.engine.lookup import InstalledEngine
from turngate_reference.server.orchestrator import transitions
from turngate_reference.server.orchestrator.decide import Decision, decide, failed
from turngate_reference.server.orchestrator.prompts import first_prompt, reply_prompt
from turngate_reference.server.orchestrator.run_files import lost_workspace
from turngate_reference.server.orchestrator.transitions import TurnResult
from turngate_reference.server.states import RunErrorCode, State
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.rows import Run

log = logging.getLogger(__name__)

MAX_TEXTS = 1000
MAX_TEXT = 64 * 2**10


class TurnFailed(Exception):  # noqa: N818 - it is the end of a turn, not a fault of ours
    """A turn that has failed before its process ended, for a reason that has a code."""

    def __init__(self, decision: Decision) -> None:
        super().__init__((decision.error or {}).get("detail"))
        self.decision = decision


@dataclass(frozen=True, slots=True)
class HeadlessTurn:
    """What a turn needs; `env` is the engine's environment but for PWD, `on_text` gets the agent's texts."""

    store: Store
    run: Run
    engine: InstalledEngine
    env: Mapping[str, str]
    on_text: Callable[[str], None]

    def session(self) -> str:
        """Return the session id to resume, after all checks that are possible before a process starts.

        Raises TurnFailed.
        """
        run = self.run
        if why := lost_workspace(run):
            raise _resume_failed(f"before the resume: {why}")
        value = run.session["handle_value"] if run.session else None
        if value is None:
            raise _resume_failed("before the resume: no session id was kept")
        if not re.fullmatch(self.engine.contract.handle.shape, value):
            raise _resume_failed(f"before the resume: {value[:100]!r} has not the shape of a session id")
        # a store that did not hold the session right after it was made is not where the engine keeps it
        seen = (run.recovery or {}).get("session_seen")
        if seen and session_exists(self.engine.contract.store, value, run.locations, run.cwd) is False:
            raise _resume_failed(f"before the resume: the engine's session store does not hold {value}")
        return str(value)

    def command(self, session: str | None, reply: str) -> Invocation:
        """Return the command that resumes a session with the user's reply (None: the command of turn 1).

        TurnFailed if the engine can't take the prompt.
        """
        run, contract = self.run, self.engine.contract
        options, model = run.request["engine_options"], run.request.get("model")
        try:
            if session is None:
                prompt = first_prompt(run.request, run.artifacts)
                return build.start(contract, prompt, run.mode, options=options, model=model)
            prompt = reply_prompt(reply, run.request, run.artifacts)
            return build.resume(contract, prompt, run.mode, session, options=options, model=model)
        except RefusedError as refused:
            raise TurnFailed(failed(RunErrorCode.PROMPT_REFUSED, str(refused))) from refused

    def play(self, built: Invocation, resumed: str | None, stop: Stop) -> Attempt:
        """Run the engine to its end, and note its process in the store; TurnFailed if it could not be run."""
        run = self.run
        log.debug("%s turn %s: %s %s", run.run_id, run.turn_index, run.engine, shlex.join(built.own_arguments))
        reader = TurnReader(
            self.engine.contract, run.mode, turn_index=run.turn_index, resumed=resumed,
            needs_handle=run.mode is Mode.INTERACTIVE and _is_resumable(run), on_text=self.on_text,
        )  # fmt: skip

        def note_process(pid: int) -> None:
            with suppress(ProcessLookupError):
                noted = (run.process or {}) | {"pid": pid, "started_at": start_time(pid)}
                with self.store.writing() as connection:
                    runs.change(connection, run.run_id, process=noted)
                    transitions.note_argv(connection, run, built.own_arguments)

        options = RunOptions(
            run.cwd, self.env, stop,
            timeout=float(run.timeout), tag=(run.process or {}).get("tag", ""), on_start=note_process,
        )  # fmt: skip
        try:
            return attempt(self.engine, built, reader, traces(run.run_directory, run.turn_index), options)
        except NoRoom as ours:
            raise TurnFailed(failed(RunErrorCode.ORCHESTRATOR_ERROR, str(ours))) from ours
        except EnvironmentFailed as lacking:
            code = RunErrorCode.SESSION_RESUME_FAILED if resumed else RunErrorCode.ENGINE_FAILED
            raise TurnFailed(failed(code, str(lacking))) from lacking

    def conclude(self, done: Attempt, start: float, stopped: Decision) -> tuple[Decision, TurnResult]:
        """Return what becomes of the run; `start` is the turn's of `time.monotonic`, `stopped` is for an interrupt."""
        run, result = self.run, done.reading.result
        decision = decide(
            result, run.mode,
            can_wait=_is_resumable(run), output_schema=run.request.get("output_schema"),
        )  # fmt: skip
        if done.ended is Ended.STOPPED:
            decision = stopped
        # the session that the run began with stays: another one is an error, which says so
        session = structs.asdict(done.reading.session) if done.reading.session and run.session is None else None
        seen = self._is_seen(session) if session and decision.state is State.WAITING_USER else None
        seconds = time.monotonic() - start
        return decision, TurnResult(seconds, result.outcome, done.exit_code, result.repair_level, session, seen)

    def _is_seen(self, session: dict[str, Any]) -> bool:
        run = self.run
        return session_exists(self.engine.contract.store, session["handle_value"], run.locations, run.cwd) is True


def text_events(store: Store, run: Run) -> Callable[[str], None]:
    """Return what passes the agent's texts on as events, within bounds; what can't be written is left out."""
    left = MAX_TEXTS

    def add(text: str) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            with suppress(sqlite3.Error), store.writing() as connection:
                data = {"turn_index": run.turn_index, "text": text[:MAX_TEXT]}
                runs.add_event(connection, run.run_id, "text", data)

    return add


def failure(run: Run, error: Exception) -> Decision:
    """Return how a run fails whose turn raised."""
    if isinstance(error, TurnFailed):
        return error.decision
    log.error("turn %s of %s failed in turngate itself", run.turn_index, run.run_id, exc_info=error)
    return failed(RunErrorCode.ORCHESTRATOR_ERROR, f"{type(error).__name__}: {error}")


def _resume_failed(detail: str) -> TurnFailed:
    return TurnFailed(failed(RunErrorCode.SESSION_RESUME_FAILED, detail))


def _is_resumable(run: Run) -> bool:
    return run.profile is not None and run.profile["kind"] == "resumable"
