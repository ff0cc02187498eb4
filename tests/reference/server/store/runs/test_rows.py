from contextlib import closing
from pathlib import Path

import pytest

from turngate import Mode
from turngate_reference.server.requests import RunLaunch
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.runs import Recovery, Run, RunProfile, RunSession
from turngate_reference.states import RunError

LAUNCH = RunLaunch(engine="codex", prompt="p", execution_mode=Mode.AUTO, engine_options=(), session_timeout_sec=5)


def stored(tmp_path: Path, workspace: Path | None = None, **columns: object) -> Run:
    """Store a run and read it back."""
    with closing(Store(tmp_path / "turngate.db")) as store, store.writing() as connection:
        run = runs.insert(connection, "handle", tmp_path / "run-1", LAUNCH, workspace)
        runs.change(connection, run.run_id, **columns)
        return runs.get(connection, run.run_id)


def test_an_engine_works_below_its_run_or_in_the_workspace(tmp_path: Path) -> None:
    """Artifacts go below that directory, under the handle of the run."""
    run = stored(tmp_path)
    assert run.artifacts == run.cwd / "artifacts/handle" == tmp_path / "run-1/work/artifacts/handle"
    (tmp_path / "other").mkdir()
    assert stored(tmp_path / "other", tmp_path / "workspace").cwd == tmp_path / "workspace"


@pytest.mark.parametrize(
    "kind, sticky, resumable", [("sticky_process", True, False), ("resumable", False, True), (None, False, False)]
)
def test_the_profile_says_how_a_run_waits(tmp_path: Path, *, kind: str | None, sticky: bool, resumable: bool) -> None:
    """The profile decides whether a run is sticky or resumable; without one, it is neither."""
    run = stored(tmp_path, profile=kind and {"kind": kind, "reason": ""})
    assert (run.is_sticky, run.is_resumable) == (sticky, resumable)


def test_the_locations_are_those_of_the_first_turn(tmp_path: Path) -> None:
    """A run that hasn't started has no locations; an unset variable is stored as unset."""
    assert stored(tmp_path).locations == {}
    (tmp_path / "other").mkdir()
    assert stored(tmp_path / "other", recovery={"locations": {"HOME": None}}).locations == {"HOME": None}


def test_rows_of_other_releases_are_read(tmp_path: Path) -> None:
    """A row may lack members that came later, and have some that are not known."""
    session = {"engine": "codex", "handle_type": "session_id", "handle_value": "s", "created_at_turn": 1}
    run = stored(
        tmp_path,
        profile={"kind": "resumable", "reason": "", "warm_wait_sec": 600, "warm_wait_reason": "r", "other": 1},
        session={**session, "other": 1},
        recovery={"cwd": "/", "locations": {}},
        error={"code": "ENGINE_FAILED", "detail": "d", "other": 1},
    )
    assert run.profile == RunProfile("resumable", "")
    assert run.session == RunSession("codex", "session_id", "s", created_at_turn=1)
    assert (run.recovery, run.error) == (Recovery(), RunError("ENGINE_FAILED", "d"))
