"""Tests of what the store keeps of the files that runs changed."""

import pytest

from tests.reference import cli_env as d
from tests.reference.server_env import ServerEnv
from turngate_reference.server.store import files
from turngate_reference.server.store.files import Change, FileChange, TurnChanges
from turngate_reference.states import State


@pytest.fixture(name="run_id")
def _run_id(server_env: ServerEnv) -> str:
    """Provide a run that has had a turn."""
    server_env.cli_env.engine("codex", d.codex("done"))
    run_id = server_env.create()
    server_env.wait(run_id, State.SUCCEEDED)
    return run_id


def record(env: ServerEnv, run_id: str, turn: int, *changed: FileChange, gap: str | None = None) -> None:
    """Record what a turn changed."""
    with env.server.store.writing() as connection:
        sql = "INSERT INTO turns (run_id, turn_index, started_at) VALUES (?, ?, 'x')"
        connection.execute(sql, (run_id, turn))
        files.record(connection, run_id, turn, TurnChanges([*changed], gap))


@pytest.mark.parametrize(
    "first, second, both",
    [
        ("added", "modified", "added"),
        ("added", "deleted", None),
        ("modified", "modified", "modified"),
        ("modified", "deleted", "deleted"),
        ("deleted", "added", "modified"),
    ],
)
def test_the_turns_of_a_run_add_up(
    server_env: ServerEnv, run_id: str, first: Change, second: Change, both: Change | None
) -> None:
    """What is told is the difference to before the run, with the text of that time."""
    record(server_env, run_id, 2, FileChange("a", first, 1, b"before"))
    record(server_env, run_id, 3, FileChange("a", second, 2, b"between"), gap="too many")
    found = files.find(server_env.server.store, run_id, "a")
    if both is None:
        assert found is None
    else:
        assert found
        assert (found[0].change, found[0].turn_index, found[0].size, found[1]) == (both, 3, 2, b"before")
    assert files.gaps(server_env.server.store, run_id) == ["too many"]


def test_what_is_kept_is_bounded(server_env: ServerEnv, run_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts for which there is no room are not kept, and of too many files the first ones are."""
    monkeypatch.setattr(files, "MAX_KEPT", 6)
    monkeypatch.setattr(files, "MAX_FILES", 3)
    record(server_env, run_id, 2, *(FileChange(str(n), "modified", 1, b"1234") for n in range(5)))
    kept = [(file.path, file.has_before) for file in files.changed(server_env.server.store, run_id)]
    assert kept == [("0", True), ("1", False), ("2", False)]
    assert files.gaps(server_env.server.store, run_id) == ["the run changed more than 3 files"]
