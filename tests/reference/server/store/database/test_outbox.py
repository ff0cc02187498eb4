"""Tests of writes during a turn: in order, in bounded memory, and without blocking the caller."""

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.reference.locked_database import locked_database
from turngate_reference.server.store import database
from turngate_reference.server.store.database import Outbox, Store, Write


@pytest.fixture(name="store")
def _store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.3)
    monkeypatch.setattr(database, "RETRY_SECONDS", 0.1)
    with contextlib.closing(Store(tmp_path / "turngate.db")) as store:
        with store.writing() as connection:
            connection.execute("CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT)")
        yield store


def adding(text: str) -> Write:
    """Return a write that stores a text."""

    def write(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO texts (text) VALUES (?)", (text,))

    return write


def texts(store: Store) -> list[str]:
    """Read the stored texts."""
    return [row["text"] for row in store.read("SELECT text FROM texts ORDER BY id")]


def test_a_locked_database_keeps_nobody_waiting_and_loses_nothing(store: Store, tmp_path: Path) -> None:
    """Writes queued while another process locks the database are made once, in order, after it unlocks."""
    turn = Outbox(store, lambda _seconds: True)
    with locked_database(tmp_path / "turngate.db"):
        start = time.monotonic()
        for number in range(100):
            assert turn.put(adding(str(number)))
        assert time.monotonic() - start < 10  # 30 seconds if each waited for the database
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            turn.flush()
        assert texts(store) == []
    turn.flush()
    assert turn.put(adding("last"))
    turn.flush()
    assert texts(store) == [*map(str, range(100)), "last"]
    turn.close()


def test_an_action_comes_after_what_is_pending(store: Store, tmp_path: Path) -> None:
    """Both are tried again until the store allows it, or the wait gives up."""
    with contextlib.ExitStack() as locked:

        def unlock(_seconds: float) -> bool:
            locked.close()
            return False

        turn = Outbox(store, unlock)
        locked.enter_context(locked_database(tmp_path / "turngate.db"))
        turn.put(adding("first"))
        assert turn.eventually(lambda: texts(store)) == ["first"]
    with locked_database(tmp_path / "turngate.db"):
        turn = Outbox(store, lambda _seconds: True)
        turn.put(adding("never"))
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            turn.eventually(lambda: texts(store))
        turn.close()


def test_it_is_written_without_a_flush(store: Store) -> None:
    """Writes are made soon even without a flush, so clients see each text quickly."""
    turn, written = Outbox(store, lambda _seconds: True), threading.Event()
    turn.put(lambda _connection: written.set())
    assert written.wait(PATIENCE)


def test_memory_is_bounded(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that doesn't fit is rejected; there is room again once pending writes are made."""
    monkeypatch.setattr(database, "MAX_PENDING", 10)
    turn = Outbox(store, lambda _seconds: True)
    with locked_database(tmp_path / "turngate.db"):
        assert [turn.put(adding(text), len(text)) for text in ("1234567", "7654", "321")] == [True, False, True]
    turn.flush()
    assert turn.put(adding("7654"), 4)
    turn.flush()
    assert texts(store) == ["1234567", "321", "7654"]


def test_what_can_never_be_written_holds_up_nothing(store: Store) -> None:
    """A write that always fails is dropped, and later ones are made."""

    def broken(_connection: sqlite3.Connection) -> None:
        raise TypeError

    turn = Outbox(store, lambda _seconds: True)
    turn.put(broken)
    turn.put(adding("after"))
    turn.flush()
    assert texts(store) == ["after"]


def test_without_a_thread_it_is_written_by_the_flush(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """If no thread can be started, the flush makes the writes."""

    def none_left(_thread: threading.Thread) -> None:
        raise RuntimeError

    turn = Outbox(store, lambda _seconds: True)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", none_left)
        assert turn.put(adding("late"))
    assert texts(store) == []
    turn.flush()
    assert texts(store) == ["late"]


def test_a_closed_one_takes_nothing(store: Store) -> None:
    """After the end of a turn, nothing more is written."""
    turn = Outbox(store, lambda _seconds: True)
    turn.close()
    assert not turn.put(adding("late"))
