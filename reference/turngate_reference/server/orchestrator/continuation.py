"""Decides whether a run can go on in its session, before a reply or a message is taken.

HTTP and terminal ask here, so that they decide alike.
"""

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from turngate import ContractError, EngineContract, MachineError, Mode
from turngate.contract.session_ids import unsafe
from turngate_reference.engine.attempt import InstalledEngine, contract_for
from turngate_reference.engine.session import ObstacleError, check_stored
from turngate_reference.server.orchestrator.run_files import lost_workspace
from turngate_reference.server.store.runs import Run
from turngate_reference.states import RunError, RunErrorCode


def engine_to_resume(run: Run, find: Callable[[str, Path], InstalledEngine]) -> InstalledEngine:
    """Return the engine that can resume the session of a run now; ObstacleError if none can.

    `find` returns an engine by its name, as it is in a directory, or raises MachineError.
    """
    try:
        engine = find(run.engine, run.cwd)
    except MachineError as lacking:
        raise ObstacleError(RunErrorCode.ENGINE_UNAVAILABLE, lacking.what, lacking.hint) from lacking
    check_session(run, engine.contract)
    return engine


def with_session(run: Run, error: RunError) -> RunError:
    """Return why a run failed, with whether its session is intact and the run can go on in it.

    Nothing is raised, since the run has ended: where its contract can't be read now, nobody knows.
    """
    if run.execution_mode is not Mode.INTERACTIVE or not run.is_resumable:
        return error
    try:
        is_there = check_session(run, contract_for(run.engine, run.engine_version))
    except ContractError:
        return replace(error, session_intact=None, can_continue=False)
    except ObstacleError as obstacle:
        return replace(error, session_intact=False if obstacle.is_final else None, can_continue=False)
    return replace(error, session_intact=is_there or None, can_continue=True)


def check_session(run: Run, contract: EngineContract) -> bool | None:
    """Raise ObstacleError if the session of a run can't be resumed now, whatever the engine is.

    Return whether the engine's store holds it; None: the contract names no store, or nobody knows.
    """
    if why := lost_workspace(run):
        raise ObstacleError(RunErrorCode.WORKSPACE_UNAVAILABLE, why, "restore it, then try again")
    session = run.session.handle_value if run.session else ""
    if not session:
        raise ObstacleError(RunErrorCode.SESSION_RESUME_FAILED, "no session id was saved")
    if why := unsafe(session):
        raise ObstacleError(RunErrorCode.SESSION_RESUME_FAILED, f"the session id can't be passed on: {why}")
    seen = run.recovery.session_seen if run.recovery else None
    return check_stored(contract, session, run.locations, run.cwd, seen=seen)
