"""Tests of what keeps a run from going on in its session, and of what can come back."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.reference import cli_env as d
from tests.reference.server_env import ASK, ServerEnv
from turngate import NotInstalledError
from turngate.contract import load
from turngate_reference.engine.attempt import InstalledEngine
from turngate_reference.engine.session import ObstacleError
from turngate_reference.server.orchestrator.continuation import check_session, engine_to_resume, with_session
from turngate_reference.server.store.runs import Recovery, Run
from turngate_reference.states import RunError, RunErrorCode

CODEX = load.contract("codex").at("0.169.0")


@pytest.fixture(name="run")
def _run(server_env: ServerEnv) -> Run:
    """Provide a run that waits."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    return server_env.run(server_env.ask()[0])


def obstacle(run: Run) -> tuple[str, bool]:
    """Return what keeps a run from going on, and whether nothing brings it back."""
    with pytest.raises(ObstacleError) as found:
        check_session(run, CODEX)
    return found.value.code, found.value.is_final


def test_a_run_that_lacks_nothing_goes_on(run: Run) -> None:
    """Its engine is found, with its contract."""
    check_session(run, CODEX)
    engine = InstalledEngine(Path("codex"), "0.169.0", CODEX)
    assert engine_to_resume(run, lambda _name, _cwd: engine) is engine


def test_an_engine_that_is_missing_can_come_back(run: Run) -> None:
    """The hint says how to install it."""

    def missing(_name: str, _cwd: Path) -> InstalledEngine:
        raise NotInstalledError("codex is not installed", "install it")

    with pytest.raises(ObstacleError) as found:
        engine_to_resume(run, missing)
    assert (found.value.code, found.value.hint, found.value.is_final) == ("ENGINE_UNAVAILABLE", "install it", False)


def test_a_session_is_gone_only_if_its_store_is_there(run: Run, server_env: ServerEnv) -> None:
    """A store that was moved away can come back; a session that was removed from it can't."""
    session = server_env.keep_session()
    sessions = session.parents[3]
    aside = sessions.rename(sessions.with_name("aside"))
    assert obstacle(run) == ("SESSION_STORE_UNAVAILABLE", False)
    aside.rename(sessions)
    session.unlink()
    assert obstacle(run) == ("SESSION_RESUME_FAILED", True)


def test_a_session_that_was_never_in_the_store_may_be_elsewhere(run: Run, server_env: ServerEnv) -> None:
    """An engine may be told to keep its sessions in another place; otherwise it is gone."""
    server_env.keep_session().unlink()
    check_session(replace(run, recovery=Recovery(run.locations, session_seen=False)), CODEX)
    unseen = replace(run, recovery=Recovery(run.locations))
    assert obstacle(unseen) == ("SESSION_RESUME_FAILED", True)


@pytest.mark.parametrize("session_id", ["", "--last"])
def test_a_run_without_a_session_that_can_be_passed_on_is_over(run: Run, session_id: str) -> None:
    """No reply can reach it, now or later."""
    assert run.session
    assert obstacle(replace(run, session=replace(run.session, handle_value=session_id))) == (
        "SESSION_RESUME_FAILED",
        True,
    )


def test_a_run_ends_though_its_contract_can_not_be_read(run: Run) -> None:
    """Nobody knows then whether its session is intact, and the run has still failed with its own error."""
    failed = RunError(RunErrorCode.ENGINE_FAILED, "exit code 1")
    ended = with_session(replace(run, engine="gone"), failed)
    assert ended == replace(failed, session_intact=None, can_continue=False)
