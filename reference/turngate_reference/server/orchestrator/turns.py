"""Runs the turns that the server has claimed: each in a process of its own, or handed over to a sticky one."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from turngate.argv.environment import engine_environment, locations_of
from turngate.errors import EnvironmentFailed
from turngate.model import Mode
from turngate.process import Stop
from turngate_reference.engine.attempt import traces
from turngate_reference.engine.lookup import InstalledEngine
from turngate_reference.server.orchestrator import headless, transitions
from turngate_reference.server.orchestrator.decide import Decision, failed
from turngate_reference.server.orchestrator.engines import Engines
from turngate_reference.server.orchestrator.headless import HeadlessTurn, TurnFailed, text_events
from turngate_reference.server.orchestrator.profiles import Profiles
from turngate_reference.server.orchestrator.prompts import first_prompt
from turngate_reference.server.orchestrator.run_files import Records, prepare_workspace
from turngate_reference.server.orchestrator.sticky_runs import StickyRun, StickyRuns
from turngate_reference.server.orchestrator.transitions import TurnResult
from turngate_reference.server.states import RunErrorCode
from turngate_reference.server.sticky.events import StickyRequest
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.rows import Run


@dataclass(frozen=True, slots=True)
class TurnRunner:
    """Runs turns that were claimed; `server_env` is the server's environment, `pass_env` further names of it.

    `observe` hears of each turn: engine, outcome, seconds.
    """

    store: Store
    records: Records
    engines: Engines
    profiles: Profiles
    sticky: StickyRuns
    server_env: Mapping[str, str]
    pass_env: tuple[str, ...] = ()
    observe: Callable[[str, str, float], None] = lambda _engine, _outcome, _seconds: None
    closing: threading.Event = field(default_factory=threading.Event)

    def run(self, run: Run, stop: Stop) -> bool:
        """Run a turn, and write what became of it, however it went; False: a sticky process holds the slot."""
        start = time.monotonic()
        try:
            engine = self._engine(run)
            run = self._prepared(run, engine)
            if run.is_sticky and engine.contract.sticky.transport != "none":
                self._begin_sticky(run, engine)
                return False
            decision, result = self._turn(run, engine, stop, start)
        except Exception as error:  # noqa: BLE001 - whatever it is, the run ends with a code and frees its slot
            decision, result = headless.failure(run, error), TurnResult(time.monotonic() - start)
        # before the state is written: a reader of it finds the record, and the next turn can't have begun
        self.records.keep(run, decision.state, result.session or run.session)
        transitions.end_turn_eventually(self.store, run, decision, result, self.closing.wait)
        self.observe(run.engine, result.outcome, result.seconds)
        return True

    def _engine(self, run: Run) -> InstalledEngine:
        try:
            return self.engines.find(run.engine)
        except EnvironmentFailed as lacking:
            raise TurnFailed(failed(RunErrorCode.ENGINE_UNAVAILABLE, str(lacking))) from lacking

    def _begin_sticky(self, run: Run, engine: InstalledEngine) -> None:
        """Hand a run over to those with a sticky process."""
        folder = traces(run.run_directory, run.turn_index)
        folder.mkdir(parents=True, exist_ok=True)
        request = StickyRequest(
            engine.executable, engine.contract, run.cwd, self._env(engine, run.locations) | {"PWD": str(run.cwd)},
            run.mode, (run.process or {})["tag"], folder, run.request.get("model"),
            tuple(run.request["engine_options"]),
        )  # fmt: skip
        prompt = first_prompt(run.request, run.artifacts)
        self.sticky.begin(StickyRun(run, engine, prompt, text_events(self.store, run)), request)

    def _turn(self, run: Run, engine: InstalledEngine, stop: Stop, start: float) -> tuple[Decision, TurnResult]:
        turn = HeadlessTurn(self.store, run, engine, self._env(engine, run.locations), text_events(self.store, run))
        resumed = turn.session() if run.turn_index > 1 else None
        reply = runs.last_answer(self.store, run.run_id, run.turn_index) if resumed else None
        built = turn.command(resumed, reply or "")
        interrupted = failed(RunErrorCode.ORCHESTRATOR_RESTART_INTERRUPTED, "the server ended while the turn ran")
        return turn.conclude(turn.play(built, resumed, stop), start, interrupted)

    def _prepared(self, run: Run, engine: InstalledEngine) -> Run:
        """Settle on turn 1 what every later turn reuses: locations, version, profile."""
        if run.turn_index > 1:
            return run
        if why := prepare_workspace(run):
            raise TurnFailed(failed(RunErrorCode.ENGINE_UNAVAILABLE, f"the workspace can't be used: {why}"))
        locations = locations_of(engine.contract, self.server_env)
        settled: dict[str, Any] = {"engine_version": engine.version, "recovery": {"locations": locations}}
        if run.mode is Mode.INTERACTIVE or run.request.get("interactive_profile"):
            profile, capability = self.profiles.choose(
                engine, self._env(engine, locations),
                asked=run.request.get("interactive_profile"), session_timeout_sec=run.timeout,
            )  # fmt: skip
            settled |= {"profile": structs.asdict(profile), "capability": structs.asdict(capability)}
        with self.store.writing() as connection:
            runs.change(connection, run.run_id, **settled)
            return runs.get(connection, run.run_id)

    def _env(self, engine: InstalledEngine, locations: Mapping[str, str | None]) -> dict[str, str]:
        return engine_environment(engine.contract, self.server_env, locations, self.pass_env)
