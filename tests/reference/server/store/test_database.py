"""Tests of the database: atomic writes, one schema version, one server."""

import contextlib
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.reference import cli_env as d
from tests.reference.server_env import ASK, ServerEnv, final
from turngate.errors import MachineError, UsageError
from turngate.process.execution import ProcessRequest, run
from turngate_reference.server.app import Server
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import DatabaseGoneError, Store
from turngate_reference.states import RunError, State


def test_an_unknown_version_is_refused(tmp_path: Path) -> None:
    """A file of a later turngate is left unchanged."""
    file = tmp_path / "turngate.db"
    Store(file).close()
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(UsageError, match="schema 99"):
        Store(file)


def test_somebody_elses_database_is_refused(tmp_path: Path) -> None:
    """A database of another program gets no tables; a file that isn't a database is rejected, too."""
    file = tmp_path / "turngate.db"
    with contextlib.closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE theirs (x)")
    with pytest.raises(UsageError, match="another program's database"):
        Store(file)
    file.write_bytes(b"no database at all" * 100)
    with pytest.raises(MachineError, match="can't be used"):
        Store(file)


def test_a_full_disk_leaves_nothing_half_written(server_env: ServerEnv) -> None:
    """If a reply can't be saved, nothing changes: the run still waits, and accepts a reply later."""
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(x=1)))
    run_id, question = server_env.ask()
    writer = server_env.server.store._writer
    (pages,) = writer.execute("PRAGMA page_count").fetchone()
    writer.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        server_env.reply(run_id, question, "x" * 10**6)
    assert server_env.run(run_id).state is State.WAITING_USER
    assert [e.type for e in runs.events(server_env.server.store, run_id)][-1] == "state"
    writer.execute("PRAGMA max_page_count = 1000000")
    server_env.reply(run_id, question)
    server_env.wait(run_id, State.SUCCEEDED)


def test_a_transaction_that_fails_is_undone(server_env: ServerEnv) -> None:
    """Everything that a block wrote before its error is rolled back."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    run_id, _ = server_env.ask()
    with contextlib.suppress(KeyError), server_env.server.store.writing() as connection:
        runs.change(connection, run_id, error=RunError("x", "y"))
        raise KeyError
    assert server_env.run(run_id).error is None


def test_who_waits_for_a_locked_database_waits_but_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many waiting writers all give up after the same time, not one after the other."""
    monkeypatch.setattr("turngate_reference.server.store.database.BUSY_SECONDS", 0.5)
    store = Store(tmp_path / "turngate.db")

    def write(_: int) -> float:
        start = time.monotonic()
        with pytest.raises(sqlite3.OperationalError, match="locked"), store.writing():
            pytest.fail("the database is locked")
        return time.monotonic() - start

    with contextlib.closing(sqlite3.connect(tmp_path / "turngate.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(40) as pool:
            assert max(pool.map(write, range(40))) < 10  # 20 seconds if one waited after the other
        other.execute("ROLLBACK")
    with store.writing():
        pass
    store.close()


def test_a_data_directory_has_one_server(server_env: ServerEnv) -> None:
    """A second server on the same directory is rejected, and the error names the first one."""
    with pytest.raises(MachineError, match="in use by process"):
        Server(server_env.settings)


def test_nothing_slow_is_done_in_a_transaction(server_env: ServerEnv) -> None:
    """Starting a process or querying an engine inside a transaction raises an error."""
    server_env.cli_env.engine("codex", d.codex("ok"))
    request = ProcessRequest(("true",), Path("/"), {"PATH": "/usr/bin:/bin"})
    with pytest.raises(RuntimeError, match="started in a write transaction"), server_env.server.store.writing():
        run(request)
    with pytest.raises(RuntimeError, match="waited for in a write transaction"), server_env.server.store.writing():
        server_env.server.engines.find("codex")
    assert run(request).exit_code == 0


@pytest.mark.parametrize("back", [True, False])
def test_a_database_that_was_moved_away_takes_no_run(server_env: ServerEnv, back: bool) -> None:  # noqa: FBT001
    """A run is refused and the server not ready while the file is elsewhere, also if another is in its place."""
    server_env.cli_env.engine("codex", d.codex("a"))
    database = server_env.cli_env.data / "turngate.db"
    away = database.rename(database.with_name("away"))
    if not back:
        database.touch()
    for _ in range(2):
        with pytest.raises(DatabaseGoneError, match="was moved away or deleted: put it back, or restart the server"):
            server_env.create()
        assert "turngate.db was moved away or deleted" in server_env.server.obstacle()
    away.rename(database)
    assert server_env.server.obstacle() == ""
    server_env.wait(server_env.create(), State.SUCCEEDED)


def test_who_writes_does_not_wait_for_who_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow query of somebody who waits for an event holds up no transaction."""
    looking, go = threading.Event(), threading.Event()

    def look(*_: object) -> list[object]:
        looking.set()
        go.wait()
        return [1]

    def write() -> None:
        with store.writing():
            pass

    with contextlib.closing(Store(tmp_path / "turngate.db")) as store, ThreadPoolExecutor(2) as pool:
        monkeypatch.setattr(store, "read", look)
        waiter = pool.submit(store.wait_for_event, None, 0, PATIENCE)
        looking.wait()
        try:
            pool.submit(write).result(PATIENCE)
        finally:
            go.set()
        assert waiter.result()
