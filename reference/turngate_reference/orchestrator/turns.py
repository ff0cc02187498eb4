"""Runs one turn of a run on a headless engine: what it needs, the process, and what becomes of the run."""

import logging
import re
import shlex
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from turngate import argv
from turngate.argv import Invocation
from turngate.environment import engine_environment, locations_of
from turngate.errors import EnvironmentFailed, RefusedError
from turngate.model import EngineSessionHandle, Mode
from turngate.runtime import Ended, Stop, session_exists, start_time
from turngate.turn import TurnReader
from turngate_reference.attempt import Attempt, NoRoom, Terms, attempt, traces
from turngate_reference.installed import InstalledEngine
from turngate_reference.orchestrator import finish, workspaces
from turngate_reference.orchestrator.decide import Decision, decide, failed
from turngate_reference.orchestrator.engines import Engines
from turngate_reference.orchestrator.profiles import Profiles
from turngate_reference.orchestrator.prompts import first_prompt, reply_prompt
from turngate_reference.orchestrator.records import keep_record
from turngate_reference.orchestrator.sticky import Kept, Sticky
from turngate_reference.resident import ResidentRequest
from turngate_reference.states import RunErrorCode, State
from turngate_reference.store import runs
from turngate_reference.store.database import Store
from turngate_reference.store.runs import Run

log = logging.getLogger(__name__)

MAX_TEXTS = 1000
MAX_TEXT = 64 * 2**10
RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class TurnRunner:
    """Runs turns that were claimed; `server_env` is the server's environment, `pass_env` further names of it.

    `observe` hears of each turn: engine, outcome, seconds.
    """

    store: Store
    engines: Engines
    profiles: Profiles
    sticky: Sticky
    server_env: Mapping[str, str]
    pass_env: tuple[str, ...] = ()
    observe: Callable[[str, str, float], None] = lambda _engine, _outcome, _seconds: None
    closing: threading.Event = field(default_factory=threading.Event)

    def run(self, run: Run, stop: Stop) -> bool:
        """Run a turn, and write what became of it, however it went; False: its process is kept, with the slot."""
        start, engine = time.monotonic(), None
        try:
            engine = self._engine(run)
            run = self._prepared(run, engine)
            if _is_kept(run, engine):
                self._keep(run, engine)
                return False
            decision, came = self._turn(run, engine, stop, start)
        except _FailedError as known:
            decision, came = known.decision, finish.Came(time.monotonic() - start)
        except Exception as ours:
            log.exception("turn %s of %s failed in turngate itself", run.turn_index, run.run_id)
            decision = failed(RunErrorCode.ORCHESTRATOR_ERROR, f"{type(ours).__name__}: {ours}")
            came = finish.Came(time.monotonic() - start)
        # before the state is told: who sees it finds the record, and the next turn can't have begun
        keep_record(run, decision, came.session or run.session, engine)
        self._write(run, decision, came)
        self.observe(run.engine, came.outcome, came.seconds)
        return True

    def _engine(self, run: Run) -> InstalledEngine:
        try:
            return self.engines.find(run.engine)
        except EnvironmentFailed as lacking:
            raise _FailedError(failed(RunErrorCode.ENGINE_UNAVAILABLE, str(lacking))) from lacking

    def _keep(self, run: Run, engine: InstalledEngine) -> None:
        """Hand a run over to those whose process is kept between turns."""
        folder = traces(run.run_directory, run.turn_index)
        folder.mkdir(parents=True, exist_ok=True)
        request = ResidentRequest(
            engine.executable, engine.contract, run.cwd, self._env(engine, run.locations) | {"PWD": str(run.cwd)},
            run.mode, (run.process or {})["tag"], folder, run.request.get("model"),
            tuple(run.request["engine_options"]),
        )  # fmt: skip
        self.sticky.begin(Kept(run, engine, _first_prompt(run), _Texts(self.store, run)), request)

    def _turn(self, run: Run, engine: InstalledEngine, stop: Stop, start: float) -> tuple[Decision, finish.Came]:
        resumed = self._checked_session(run, engine) if run.turn_index > 1 else None
        built = self._invocation(run, engine, resumed)
        log.debug("%s turn %s: %s %s", run.run_id, run.turn_index, run.engine, shlex.join(built.own_arguments))
        done = self._attempt(run, engine, built, resumed, stop)
        result = done.reading.result
        decision = decide(
            result, run.mode,
            canceled=False, can_wait=_is_resumable(run), output_schema=run.request.get("output_schema"),
        )  # fmt: skip
        if done.ended is Ended.STOPPED:
            decision = failed(RunErrorCode.ORCHESTRATOR_RESTART_INTERRUPTED, "the server ended while the turn ran")
        session = _session(run, done.reading.session) if done.reading.session else None
        seen = self._is_seen(run, engine, session) if session and decision.state is State.WAITING_USER else None
        seconds = time.monotonic() - start
        return decision, finish.Came(seconds, result.outcome, done.exit_code, result.repair_level, session, seen)

    def _prepared(self, run: Run, engine: InstalledEngine) -> Run:
        """Settle on turn 1 what every later turn reuses: locations, version, profile."""
        if run.turn_index > 1:
            return run
        if why := workspaces.prepare(run):
            raise _FailedError(failed(RunErrorCode.ENGINE_UNAVAILABLE, f"the workspace can't be used: {why}"))
        locations = locations_of(engine.contract, self.server_env)
        settled: dict[str, Any] = {"engine_version": engine.version, "recovery": {"locations": locations}}
        if run.mode is Mode.INTERACTIVE or run.request.get("interactive_profile"):
            profile, capability = self.profiles.choose(
                engine, self._env(engine, locations),
                asked=run.request.get("interactive_profile"), session_timeout_sec=run.timeout,
            )  # fmt: skip
            settled |= {"profile": asdict(profile), "capability": asdict(capability)}
        with self.store.writing() as connection:
            runs.change(connection, run.run_id, **settled)
            return runs.get(connection, run.run_id)

    def _is_seen(self, run: Run, engine: InstalledEngine, session: dict[str, Any]) -> bool:
        value = session["handle_value"]
        return session_exists(engine.contract.store, value, run.locations, run.cwd) is True

    def _checked_session(self, run: Run, engine: InstalledEngine) -> str:
        """Give the session id to resume, after all checks that are possible before a process starts."""
        if why := workspaces.lost(run):
            raise _resume_failed(f"before the resume: {why}")
        value = run.session["handle_value"] if run.session else None
        if value is None:
            raise _resume_failed("before the resume: no session id was kept")
        if not re.fullmatch(engine.contract.handle.shape, value):
            raise _resume_failed(f"before the resume: {value[:100]!r} has not the shape of a session id")
        # a store that did not hold the session right after it was made is not where the engine keeps it
        seen = (run.recovery or {}).get("session_seen")
        if seen and session_exists(engine.contract.store, value, run.locations, run.cwd) is False:
            raise _resume_failed(f"before the resume: the engine's session store does not hold {value}")
        return str(value)

    def _invocation(self, run: Run, engine: InstalledEngine, resumed: str | None) -> Invocation:
        given = {"options": run.request["engine_options"], "model": run.request.get("model")}
        try:
            if resumed is None:
                return argv.start(engine.contract, _first_prompt(run), run.mode, **given)
            reply = runs.last_answer(self.store, run.run_id, run.turn_index) or ""
            prompt = reply_prompt(
                reply, run.mode, artifacts=run.artifacts, output_schema=run.request.get("output_schema")
            )
            return argv.resume(engine.contract, prompt, run.mode, resumed, **given)
        except RefusedError as refused:
            raise _FailedError(failed(RunErrorCode.PROMPT_REFUSED, str(refused))) from refused

    def _attempt(
        self, run: Run, engine: InstalledEngine, built: Invocation, resumed: str | None, stop: Stop
    ) -> Attempt:
        reader = TurnReader(
            engine.contract, run.mode, turn_index=run.turn_index, resumed=resumed,
            needs_handle=run.mode is Mode.INTERACTIVE and _is_resumable(run), on_text=_Texts(self.store, run),
        )  # fmt: skip

        def note_process(pid: int) -> None:
            with suppress(ProcessLookupError):
                noted = (run.process or {}) | {"pid": pid, "started_at": start_time(pid)}
                with self.store.writing() as connection:
                    runs.change(connection, run.run_id, process=noted)
                    finish.note_argv(connection, run, built.own_arguments)

        terms = Terms(
            run.cwd, self._env(engine, run.locations), stop,
            timeout=float(run.timeout), tag=(run.process or {}).get("tag", ""), on_start=note_process,
        )  # fmt: skip
        try:
            return attempt(engine, built, reader, traces(run.run_directory, run.turn_index), terms)
        except NoRoom as ours:
            raise _FailedError(failed(RunErrorCode.ORCHESTRATOR_ERROR, str(ours))) from ours
        except EnvironmentFailed as lacking:
            code = RunErrorCode.SESSION_RESUME_FAILED if resumed else RunErrorCode.ENGINE_FAILED
            raise _FailedError(failed(code, str(lacking))) from lacking

    def _env(self, engine: InstalledEngine, locations: Mapping[str, str | None]) -> dict[str, str]:
        return engine_environment(engine.contract, self.server_env, locations, self.pass_env)

    def _write(self, run: Run, decision: Decision, came: finish.Came) -> None:
        """End the turn in the store, as soon as it can be written; until the server ends, that is."""
        while True:
            try:
                finish.finish(self.store, run, decision, came)
            except sqlite3.Error:
                log.exception("the end of turn %s of %s can't be written yet", run.turn_index, run.run_id)
                if self.closing.wait(RETRY_SECONDS):
                    return
            else:
                return


class _FailedError(Exception):
    """A turn that has failed before its process started, for a reason that has a code."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision.error)
        self.decision = decision


class _Texts:
    """Passes the agent's texts on as events, within bounds; what can't be written is left out."""

    def __init__(self, store: Store, run: Run) -> None:
        self._store, self._run, self._left = store, run, MAX_TEXTS

    def __call__(self, text: str) -> None:
        if self._left <= 0:
            return
        self._left -= 1
        with suppress(sqlite3.Error), self._store.writing() as connection:
            told = {"turn_index": self._run.turn_index, "text": text[:MAX_TEXT]}
            runs.add_event(connection, self._run.run_id, "text", told)


def _resume_failed(detail: str) -> _FailedError:
    return _FailedError(failed(RunErrorCode.SESSION_RESUME_FAILED, detail))


def _first_prompt(run: Run) -> str:
    request = run.request
    return first_prompt(
        request["prompt"], run.mode,
        skill=request.get("skill"), artifacts=run.artifacts, output_schema=request.get("output_schema"),
    )  # fmt: skip


def _is_kept(run: Run, engine: InstalledEngine) -> bool:
    """Whether the process stays between turns: the profile says so, and the contract names a way."""
    return (
        run.profile is not None
        and run.profile["kind"] == "sticky_process"
        and engine.contract.resident.transport != "none"
    )


def _is_resumable(run: Run) -> bool:
    return run.profile is not None and run.profile["kind"] == "resumable"


def _session(run: Run, found: EngineSessionHandle) -> dict[str, Any] | None:
    """Keep the session that the run began with: another one is an error, which says so, not the run's session."""
    return asdict(found) if run.session is None else None
