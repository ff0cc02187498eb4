"""Runs the turns that the server has claimed, in a separate process each or in a kept one."""

import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from turngate import MachineError, Mode, RefusedError, Stop, Trust, engine_environment, session_locations
from turngate.argv.trust import NO_TRUST
from turngate_reference.engine.attempt import InstalledEngine
from turngate_reference.server.orchestrator import transitions
from turngate_reference.server.orchestrator.decide import INTERRUPTED, DataFlaw, Decision, TurnResult
from turngate_reference.server.orchestrator.engines import Engines
from turngate_reference.server.orchestrator.headless import (
    HeadlessTurn,
    TurnFailed,
    complete,
    no_artifacts,
    text_events,
)
from turngate_reference.server.orchestrator.kept_processes import KeptProcesses
from turngate_reference.server.orchestrator.kept_states import KeptCause
from turngate_reference.server.orchestrator.kept_turn import KeptTurn
from turngate_reference.server.orchestrator.profiles import Profiles, no_sticky_process
from turngate_reference.server.orchestrator.run_files import Records, prepare_workspace
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Outbox, Store
from turngate_reference.server.store.runs import Recovery, Run, RunProfile
from turngate_reference.states import ENDED, RunErrorCode


class TurnRunner(Struct, frozen=True):
    """Runs claimed turns; `server_env` is the server's environment, `pass_env` names extra variables in it.

    `data_flaw` applies an output schema. `observe` gets engine, outcome and seconds of each turn.
    """

    store: Store
    records: Records
    engines: Engines
    profiles: Profiles
    kept: KeptProcesses
    data_flaw: DataFlaw
    server_env: Mapping[str, str]
    pass_env: tuple[str, ...] = ()
    observe: Callable[[str, str, float], None] = lambda _engine, _outcome, _seconds: None
    closing: threading.Event = field(default_factory=threading.Event)
    trust: Trust = NO_TRUST

    def run(self, run: Run, stop: Stop) -> bool:
        """Run a turn and save its result, success or failure; False if a sticky process holds the slot."""
        outbox, run_id = Outbox(self.store, self.closing.wait), run.run_id
        try:
            result = complete(
                outbox,
                self.records,
                run,
                lambda: self._turn(run, stop, outbox),
                lambda: self.kept.note(run_id),
                lambda: self.kept.end_wholly(run_id),
            )
            self.observe(run.engine, result.outcome, result.seconds or 0.0)
            has_process = self._leave_process(run_id)
        except BaseException:
            self.kept.tell(run_id, KeptCause.RUN_ENDED)
            self.kept.end_wholly(run_id)
            raise
        return not has_process

    def _turn(self, run: Run, stop: Stop, outbox: Outbox) -> tuple[Decision, TurnResult]:
        """Run a turn to its end."""
        if run.is_sticky and (process := self.kept.find(run.run_id)):
            # its engine may have been uninstalled meanwhile
            turn = HeadlessTurn(outbox, run, process.engine, {}, text_events(outbox, run), self.data_flaw)
            return KeptTurn(turn, self.kept).play(self._reply(run, outbox), stop)
        engine = self._engine(run)
        engine = replace(engine, contract=self.trust.applied(engine.contract, run.cwd))
        reply = None
        if run.turn_index == 1:
            run = self._prepared(run, engine, outbox)
            if (
                run.is_sticky
                and run.execution_mode is Mode.INTERACTIVE
                and (lack := no_sticky_process(engine.contract))
            ):
                reason = run.profile.reason if run.profile else ""
                raise TurnFailed(RunErrorCode.INTERACTION_PROCESS_LOST, f"{lack}, which the run would need: {reason}")
        else:
            reply = self._reply(run, outbox)
        env = self._env(engine, run.locations)
        keeps = run.is_sticky and engine.contract.sticky.transport != "none"
        if why := self._unsafe(run, engine, env, kept=keeps):
            raise TurnFailed(RunErrorCode.ENGINE_UNSAFE, why)
        turn = HeadlessTurn(outbox, run, engine, env, text_events(outbox, run), self.data_flaw)
        if keeps:
            return KeptTurn(turn, self.kept).play(reply, stop)
        command = turn.command(reply)
        if reply is not None:
            outbox.eventually(lambda: transitions.note_sending(self.store, run))
        return turn.conclude(turn.play(command, stop), INTERRUPTED)

    def _engine(self, run: Run) -> InstalledEngine:
        """Return the engine as it is now; TurnFailed if it is missing."""
        try:
            return self.engines.find(run.engine, run.cwd)
        except MachineError as lacking:
            raise TurnFailed(RunErrorCode.ENGINE_UNAVAILABLE, str(lacking)) from lacking

    def _prepared(self, run: Run, engine: InstalledEngine, outbox: Outbox) -> Run:
        """Decide on turn 1 what every later turn reuses: locations, version, profile."""
        if why := prepare_workspace(run):
            raise TurnFailed(RunErrorCode.ENGINE_UNAVAILABLE, f"the workspace can't be used: {why}")
        locations = session_locations(engine.contract, self.server_env)
        settled: dict[str, Any] = {"engine_version": engine.version, "recovery": Recovery(locations)}
        if run.execution_mode is Mode.INTERACTIVE or run.launch.interactive_profile:
            profile, capability = self.profiles.choose(
                engine,
                self._env(engine, locations),
                asked=run.launch.interactive_profile,
                session_timeout_sec=run.session_timeout_sec,
            )
            chosen = RunProfile(profile.kind, profile.reason, profile.session_timeout_sec)
            why = no_artifacts(replace(run, profile=chosen), engine.contract)
            settled |= {"profile": replace(chosen, no_artifacts=why or UNSET), "capability": capability}

        def settle() -> Run:
            with self.store.writing() as connection:
                runs.change(connection, run.run_id, **settled)
                return runs.get(connection, run.run_id)

        return outbox.eventually(settle)

    def _reply(self, run: Run, outbox: Outbox) -> str:
        """Return the reply that begins a turn."""
        return outbox.eventually(lambda: runs.last_answer(self.store, run.run_id, run.turn_index)) or ""

    def _leave_process(self, run_id: str) -> bool:
        """Leave the process of a turn to the next one, or to its end; whether there is one, which holds the slot."""
        if self.kept.find(run_id) is None:
            return False
        run = None
        with suppress(sqlite3.Error):
            run = runs.find(self.store, run_id)
        self.kept.tell(run_id, KeptCause.RUN_ENDED if run is None or run.state in ENDED else KeptCause.RUN_WAITS)
        return True

    def _unsafe(self, run: Run, engine: InstalledEngine, env: Mapping[str, str | None], *, kept: bool) -> str | None:
        """Return why the engine must not run a turn, or must not be kept after it; None if it may."""
        try:
            self.trust.check(engine.contract, run.execution_mode, run.workspace, env, kept=kept)
        except RefusedError as unsafe:
            return str(unsafe)
        return None

    def _env(self, engine: InstalledEngine, locations: Mapping[str, str | None]) -> dict[str, str]:
        return engine_environment(engine.contract, self.server_env, locations, self.pass_env)
