"""Tests of whether a session can be resumed, by what the engine's session store holds."""

from pathlib import Path

import pytest

from tests.reference.cli_env import SESSION
from tests.tables import each
from turngate.contract import load
from turngate_reference.engine.session import ObstacleError, check_stored, seen_after_first_turn

KIMI = load.contract("kimi").at("1.44.0")


@pytest.fixture(name="session")
def _session(tmp_path: Path) -> Path:
    """Provide the file of a session in Kimi's store."""
    file = tmp_path / ".kimi/sessions/folder" / SESSION / "context.jsonl"
    file.parent.mkdir(parents=True)
    file.touch()
    return file


def test_a_session_in_the_store_can_be_resumed(tmp_path: Path, session: Path) -> None:
    """It is there, whatever was known of it."""
    locations = {"HOME": str(tmp_path)}
    assert check_stored(KIMI, SESSION, locations, tmp_path, seen=True) is session.exists() is True
    assert seen_after_first_turn(KIMI, SESSION, locations, tmp_path, failed=True) is True


@each("seen, code", [(True, "SESSION_RESUME_FAILED"), (None, "SESSION_RESUME_FAILED"), (False, None)])
def test_a_session_that_is_not_there_is_lost_unless_it_never_was(
    tmp_path: Path, *, seen: bool | None, code: str | None
) -> None:
    """The error names the place, with the values of this conversation."""
    (tmp_path / ".kimi/sessions").mkdir(parents=True, exist_ok=True)
    locations = {"HOME": str(tmp_path)}
    if code is None:
        assert check_stored(KIMI, SESSION, locations, tmp_path, seen=seen) is None
        return
    with pytest.raises(ObstacleError) as lost:
        check_stored(KIMI, SESSION, locations, tmp_path, seen=seen)
    assert (lost.value.code, lost.value.is_final) == (code, True)
    assert f"nothing is at {tmp_path}/.kimi/sessions/*/{SESSION}/context.jsonl" in lost.value.detail


def test_a_store_that_is_gone_can_come_back(tmp_path: Path) -> None:
    """The hint says what to do."""
    with pytest.raises(ObstacleError) as gone:
        check_stored(KIMI, SESSION, {"HOME": str(tmp_path)}, tmp_path, seen=True)
    assert (gone.value.code, gone.value.is_final) == ("SESSION_STORE_UNAVAILABLE", False)
    assert gone.value.hint == "unlock or restore it, then try again"


@pytest.mark.parametrize("failed", [False, True])
def test_only_a_turn_that_went_well_says_that_sessions_are_elsewhere(tmp_path: Path, *, failed: bool) -> None:
    """One that failed may have stored none."""
    seen = seen_after_first_turn(KIMI, SESSION, {"HOME": str(tmp_path)}, tmp_path, failed=failed)
    assert seen is (None if failed else False)
