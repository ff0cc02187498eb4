import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.reference import cli_env as d
from tests.reference.caller import Caller, problem_flaws
from tests.reference.server_env import ServerEnv
from turngate import ContractError


def test_a_locked_database_changes_nothing(
    caller: Caller, closed_server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While another process locks the database, requests that would change it are told to retry."""
    monkeypatch.setattr("turngate_reference.server.store.database.BUSY_SECONDS", 0.0)
    database = closed_server_env.settings.data.root / "turngate.db"
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = caller.post("/v1/runs", {"engine": "codex", "prompt": "x"})
        assert (answer.status, answer.json["code"]) == (503, "STORE_UNAVAILABLE")
        assert caller.get("/v1/runs").json["runs"] == []
        other.execute("ROLLBACK")
    assert not [*closed_server_env.settings.data.runs.glob("*")]
    assert caller.post("/v1/runs", {"engine": "codex", "prompt": "x"}).status == 202


def test_a_full_disk_changes_nothing(
    caller: Caller, closed_server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the directory of a run can't be created, there is no run."""
    monkeypatch.setattr(Path, "mkdir", _full)
    answer = caller.post("/v1/runs", {"engine": "codex", "prompt": "x"})
    assert (answer.status, answer.json["code"]) == (503, "STORE_UNAVAILABLE")
    assert answer.json["hint"] == "free some space on the server's disk"
    monkeypatch.undo()
    assert caller.get("/v1/runs").json["runs"] == []


def _faulty() -> None:
    raise KeyError("secret")


def test_a_failing_machine_is_told_as_such(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the system during a request is a 503, since the request may work later."""
    monkeypatch.setattr(caller.core.engines, "every", _full)
    answer = caller.get("/v1/engines")
    assert (answer.status, answer.json["code"]) == (503, "STORE_UNAVAILABLE")


def _unreadable(*_: object, **__: object) -> None:
    raise ContractError("can't be read: Too many open files", "engines/codex.yaml")


def test_a_contract_that_can_not_be_read_is_told_as_such(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be readable later, and the answer names the file."""
    monkeypatch.setattr(caller.core.engines, "every", _unreadable)
    answer = caller.get("/v1/engines")
    assert (answer.status, answer.json["code"]) == (503, "STORE_UNAVAILABLE")
    assert answer.json["detail"] == "engines/codex.yaml: can't be read: Too many open files"


def _full(*_: object, **__: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_fault_of_ours_is_a_problem_too(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected error is reported as a server error, without details."""
    monkeypatch.setattr(caller.core.engines, "every", _faulty)
    response = caller.client.get("/v1/engines")
    assert response.status_code == 500
    assert '"INTERNAL_ERROR"' in response.text
    assert "secret" not in response.text


def test_a_problem_names_its_place(caller: Caller) -> None:
    """The path is reported as a valid URI, whatever it contains."""
    answer = caller.get("/v1/runs/%C3%A9%20%22%0A/turns")
    assert answer.json["instance"] == "/v1/runs/%C3%A9%20%22%0A/turns"
    assert not problem_flaws(answer)


def test_a_database_that_was_moved_away_takes_no_run(server_env: ServerEnv) -> None:
    """A run is refused and the server not ready, both with what to do."""
    server_env.cli_env.engine("codex", d.codex("a"))
    caller, database = Caller(server_env.server), server_env.cli_env.data / "turngate.db"
    away = database.rename(database.with_name("away"))
    refused, ready = caller.post("/v1/runs", {"engine": "codex", "prompt": "x"}), caller.get("/readyz")
    assert (refused.status, refused.json["code"]) == (503, "STORE_UNAVAILABLE")
    assert (ready.status, ready.json["code"]) == (503, "NOT_READY")
    for answer in (refused, ready):
        assert "was moved away or deleted: put it back, or restart the server" in answer.json["detail"]
    away.rename(database)
    assert caller.get("/readyz").status == 200
