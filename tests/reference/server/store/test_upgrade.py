"""Tests of new databases and of upgrades: nothing is lost, whatever interrupts them, and a copy stays."""

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from multiprocessing import get_context
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.reference.locked_database import locked_database
from tests.reference.saved_data import later_schema, rows, unpack, version
from turngate.errors import MachineError, UsageError
from turngate_reference.server.store import upgrade
from turngate_reference.server.store.database import Store


@pytest.fixture(name="database")
def _database(tmp_path: Path) -> Path:
    """Provide the database of a killed server with schema 3."""
    return unpack(tmp_path).database


@pytest.fixture(name="later")
def _later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Make turngate one with a later schema; return its version."""
    monkeypatch.setattr(upgrade, "_FOLDER", later_schema(tmp_path / "later"))
    return max(upgrade.migrations())


def saved(database: Path) -> Path:
    """Return the copy of the database."""
    return database.parent / "backups" / "turngate-schema-3.db"


def test_every_version_has_one_script() -> None:
    """The versions follow each other without a gap, from the first one that a release had."""
    numbers = [*upgrade.migrations()]
    assert numbers == [*range(3, 3 + len(numbers))]
    assert len({name.name for name in upgrade._FOLDER.iterdir()}) == len(numbers)


def test_a_script_that_a_release_had_is_never_edited(tmp_path: Path, database: Path) -> None:
    """The first script makes exactly the tables that the saved database has."""
    tables = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
    with closing(sqlite3.connect(database)) as old, closing(sqlite3.connect(tmp_path / "new.db")) as new:
        new.executescript(upgrade.migrations()[3])
        assert old.execute(tables).fetchall() == new.execute(tables).fetchall()


def test_an_upgrade_keeps_every_row(database: Path, later: int) -> None:
    """Every row is in the upgraded database, and in a copy that an earlier turngate can use."""
    with closing(Store(database)) as store:
        assert {row["notes_json"] for row in store.read("SELECT notes_json FROM runs")} == {"[]"}
        answered = store.read("SELECT answered_by FROM interactions WHERE response IS NOT NULL")
        assert {row["answered_by"] for row in answered} == {"user; or terminal"}
    after = rows(database)
    assert (version(database), version(saved(database))) == (later, 3)
    assert after == rows(saved(database))
    assert str(database.parent) in str(after["runs"])  # what was committed, but not in the main file
    assert len(after["runs"]) == 8
    assert upgrade._FOLDER.name == "later"
    assert [file.name for file in saved(database).parent.iterdir()] == [saved(database).name]


def test_a_new_database_is_like_an_upgraded_one(tmp_path: Path, database: Path, later: int) -> None:
    """It is made by the same scripts, and there is nothing to copy."""
    Store(database).close()
    new = tmp_path / "new" / "turngate.db"
    new.parent.mkdir()
    Store(new).close()
    tables = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
    with closing(sqlite3.connect(database)) as old, closing(sqlite3.connect(new)) as created:
        assert old.execute(tables).fetchall() == created.execute(tables).fetchall()
    assert version(new) == later
    assert not saved(new).parent.exists()


def test_a_database_of_this_version_is_only_opened(database: Path) -> None:
    """Nothing is copied, and nothing is written."""
    Store(database).close()
    shutil.rmtree(saved(database).parent, ignore_errors=True)
    before = rows(database)
    Store(database).close()
    assert rows(database) == before
    assert not saved(database).parent.exists()


def _killed_at(step: int, database: Path) -> None:
    """Open the database in this process, which kills itself before that step: a statement, a sync or a rename."""
    left, connect, fsync, replace = step, sqlite3.connect, os.fsync, Path.replace

    def count(*_: object) -> None:
        nonlocal left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    def watched(*args: object, **options: object) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)  # type: ignore[call-overload]
        connection.set_trace_callback(count)
        return connection

    def synced(descriptor: int) -> None:
        count()
        fsync(descriptor)

    def replaced(path: Path, target: Path) -> Path:
        count()
        return replace(path, target)

    sqlite3.connect = watched  # type: ignore[assignment]
    os.fsync, Path.replace = synced, replaced  # type: ignore[assignment]
    Store(database).close()
    os._exit(0)


@pytest.mark.long
@pytest.mark.nightly
def test_a_kill_at_any_step_loses_nothing(tmp_path: Path, later: int) -> None:
    """After it the database has the old version or the new one with every row, and the next start completes it."""
    versions: list[int] = []
    files = [file for file in unpack(tmp_path).root.iterdir() if file.name.startswith("turngate.db")]
    expected: Mapping[str, object] = {}
    while True:
        (root := tmp_path / f"step-{len(versions)}").mkdir()
        for file in files:
            shutil.copy(file, root)
        database = root / "turngate.db"
        # a connection that closes would move what a killed server left into the main file
        process = get_context("fork").Process(target=_killed_at, args=(len(versions), database))
        process.start()
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        versions.append(version(database))
        expected = expected or rows(database)
        assert rows(database) == expected
        Store(database).close()
        assert version(database) == later
        assert rows(database) == expected
        assert not list(database.parent.glob("backups/*.part*"))
    assert str(tmp_path) in str(expected)
    # the commit is one step among many
    assert versions == sorted(versions)
    assert {*versions} == {3, later}
    assert len(versions) > 15


@pytest.mark.parametrize(
    "change, why",
    [
        ("ALTER TABLE runs ADD COLUMN x TEXT;\nINSERT INTO nowhere VALUES (1);", "no such table: nowhere"),
        ("ALTER TABLE runs ADD COLUMN x TEXT;\nthis is no SQL", "syntax error"),
        ("UPDATE runs SET run_id = run_id || 'x';", "refer to a missing row of runs"),
        ("DELETE FROM events;\nCREATE TABLE runs (x);", "already exists"),
    ],
)
def test_a_script_that_fails_changes_nothing(
    tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch, change: str, why: str
) -> None:
    """The error says what is wrong and that nothing was changed; the database is still usable."""
    before = rows(database)
    monkeypatch.setattr(upgrade, "_FOLDER", later_schema(tmp_path / "later", change))
    with pytest.raises(MachineError, match=rf"can't be upgraded from schema 3 to \d: .*{why}.*it is unchanged"):
        Store(database)
    assert (version(database), rows(database)) == (3, before)
    monkeypatch.undo()
    Store(database).close()


def _full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_without_a_copy_there_is_no_upgrade(database: Path, later: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the copy can't be written, the database is unchanged, and no part of a copy stays."""
    before = rows(database)
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", _full)
        with pytest.raises(MachineError, match="No space left on device"):
            Store(database)
    assert (version(database), rows(database)) == (3, before)
    assert list(saved(database).parent.iterdir()) == []
    Store(database).close()
    assert version(database) == later


def test_a_newer_database_is_left_as_it_is(database: Path) -> None:
    """It isn't changed in a single byte, not even to tidy up; the error names the copy that fits, if there is one."""
    process = get_context("fork").Process(target=_make_newer, args=(database,))
    process.start()
    process.join()
    files = (database, database.with_name("turngate.db-wal"))
    before = [file.read_bytes() for file in files]
    newest = max(upgrade.migrations())
    said = rf"a newer turngate wrote .*schema 99.*reads up to {newest}.*it is unchanged"
    with pytest.raises(UsageError, match=said) as e:
        Store(database)
    assert "backups" not in str(e.value)
    assert [file.read_bytes() for file in files] == before
    saved(database).parent.mkdir()
    (saved(database).parent / f"turngate-schema-{newest}.db").touch()
    with pytest.raises(UsageError, match=rf"backups/turngate-schema-{newest}\.db is a copy"):
        Store(database)


def _make_newer(database: Path) -> None:
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA user_version = 99")
    os._exit(0)


@pytest.mark.parametrize("number", [1, 2])
def test_a_version_that_no_release_had_is_refused(database: Path, number: int) -> None:
    """The error says so."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f"PRAGMA user_version = {number}")
    with pytest.raises(UsageError, match=f"schema {number}, which no release of turngate had"):
        Store(database)


def test_only_the_newest_copies_stay(database: Path, later: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies are for their user alone, and the oldest ones are deleted."""
    folder = saved(database).parent
    folder.mkdir()
    for number in range(5):
        (folder / f"turngate-schema-{number}.db").touch()
        os.utime(folder / f"turngate-schema-{number}.db", (number, number))
    Store(database).close()
    assert {file.name for file in folder.iterdir()} == {f"turngate-schema-{number}.db" for number in (2, 3, 4)}
    assert rows(saved(database)) == rows(database)
    assert saved(database).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("hold", [lambda path: closing(sqlite3.connect(path)), locked_database], ids=["open", "locked"])
def test_nobody_else_has_it_open_during_an_upgrade(
    database: Path,
    later: int,
    monkeypatch: pytest.MonkeyPatch,
    hold: Callable[[Path], AbstractContextManager[sqlite3.Connection | None]],
) -> None:
    """While an earlier turngate uses the database, it isn't upgraded, and the error says what to do."""
    monkeypatch.setattr("turngate_reference.server.store.database.BUSY_SECONDS", 0.1)
    with hold(database) as connection:
        if connection:
            connection.execute("SELECT count(*) FROM runs").fetchone()
        with pytest.raises(MachineError, match=r"another process has it open .*stop the earlier turngate"):
            Store(database)
        assert not saved(database).parent.exists()
    assert version(database) == 3
    Store(database).close()
    assert version(database) == later


def test_of_two_at_once_one_upgrades(database: Path, later: int) -> None:
    """The other one waits, and finds it done."""
    before = rows(database)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(upgrade.prepare, [database] * 2, [PATIENCE] * 2))
    assert (version(database), rows(database)) == (later, before)
    assert version(saved(database)) == 3
