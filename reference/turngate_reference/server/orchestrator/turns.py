"""Prepares the turns that the server has claimed: the engine as it is now, the profile, the environment."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from turngate import MachineError, Mode, RefusedError, Trust, engine_environment, session_locations
from turngate.argv.trust import NO_TRUST
from turngate.process.family import end_orphans
from turngate_reference.engine.attempt import InstalledEngine, traces
from turngate_reference.server.orchestrator.engines import Engines
from turngate_reference.server.orchestrator.headless import (
    TurnFailed,
    TurnWork,
    command,
    first_prompt,
    no_artifacts,
    reply_prompt,
)
from turngate_reference.server.orchestrator.profiles import Profiles, no_sticky_process
from turngate_reference.server.orchestrator.recovery import noted_processes
from turngate_reference.server.orchestrator.run_files import prepare_workspace
from turngate_reference.server.orchestrator.turn_states import Plan, Prepared
from turngate_reference.server.orchestrator.workspace_files import snapshot
from turngate_reference.server.store.runs import Recovery, Run, RunProfile
from turngate_reference.server.transports.events import OpenRequest
from turngate_reference.states import RunErrorCode


class ServerTurns(TurnWork, frozen=True, kw_only=True):
    """The turns of a server; `server_env` is its environment, `pass_env` names extra variables in it."""

    engines: Engines
    profiles: Profiles
    server_env: Mapping[str, str]
    pass_env: tuple[str, ...] = ()
    trust: Trust = NO_TRUST

    def prepare(self, run: Run, reply: str | None, kept: InstalledEngine | None) -> Prepared:
        """Return what a turn needs; the engine of a kept process may have been uninstalled meanwhile.

        What an earlier turn left, and nobody could end then, is ended first: it may use the session.
        """
        end_orphans(noted_processes(run.process.kept if run.process else None))
        if kept is not None:
            text = reply_prompt(reply or "", run.launch, _artifacts(run, kept))
            return Prepared(Plan(run, kept, {}, snapshot(run, with_texts=True), text=text))
        engine = self._engine(run)
        engine = replace(engine, contract=self.trust.applied(engine.contract, run.cwd))
        settled = self._settled(run, engine) if run.turn_index == 1 else {}
        run = replace(run, **settled)
        self._check_process(run, engine)
        env = self._env(engine, run.locations)
        keeps = run.is_sticky and engine.contract.sticky.transport != "none"
        try:
            self.trust.check(engine.contract, run.execution_mode, run.workspace, env, kept=keeps)
        except RefusedError as unsafe:
            raise TurnFailed(RunErrorCode.ENGINE_UNSAFE, str(unsafe)) from unsafe
        plan = Plan(run, engine, env, snapshot(run, with_texts=True), settled=settled)
        if not keeps:
            return Prepared(replace(plan, command=command(run, engine, reply)))
        if reply is not None:
            raise ValueError(f"{run.run_id} has no process that could take the reply")
        text = first_prompt(run.launch, _artifacts(run, engine))
        return Prepared(replace(plan, text=text, opens=_open_request(run, engine, env)))

    def _engine(self, run: Run) -> InstalledEngine:
        """Return the engine as it is now; TurnFailed if it is missing."""
        try:
            return self.engines.find(run.engine, run.cwd)
        except MachineError as lacking:
            raise TurnFailed(RunErrorCode.ENGINE_UNAVAILABLE, str(lacking)) from lacking

    def _settled(self, run: Run, engine: InstalledEngine) -> dict[str, Any]:
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
        return settled

    def _check_process(self, run: Run, engine: InstalledEngine) -> None:
        """Fail the first turn of an interactive run that needs a process to keep, and can't have one."""
        is_asked = run.turn_index == 1 and run.is_sticky and run.execution_mode is Mode.INTERACTIVE
        if is_asked and (lack := no_sticky_process(engine.contract)):
            reason = run.profile.reason if run.profile else ""
            raise TurnFailed(RunErrorCode.INTERACTION_PROCESS_LOST, f"{lack}, which the run would need: {reason}")

    def _env(self, engine: InstalledEngine, locations: Mapping[str, str | None]) -> dict[str, str]:
        return engine_environment(engine.contract, self.server_env, locations, self.pass_env)


def _artifacts(run: Run, engine: InstalledEngine) -> Path | None:
    return None if no_artifacts(run, engine.contract) else run.artifacts


def _open_request(run: Run, engine: InstalledEngine, env: Mapping[str, str]) -> OpenRequest:
    return OpenRequest(
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
