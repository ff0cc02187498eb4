"""The SQLite file in which a server keeps everything that must outlive it."""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from turngate import EnvironmentFailed
from turngate.files import open_private
from turngate.process.launch import critical
from turngate_reference.server.store.upgrade import prepare

BUSY_SECONDS = 5.0


class Store:
    """One connection that writes, one transaction at a time, and one that reads; both usable in any thread.

    Errors of sqlite3 (a full disk, a lock that another process holds) are passed on unchanged, and nothing of the
    transaction is written.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, and create or upgrade its tables; EnvironmentFailed if it can't be used."""
        self._changed = threading.Condition()
        self._write_lock, self._read_lock = threading.Lock(), threading.Lock()
        try:
            # SQLite creates its other files with the mode of this one
            os.close(open_private(path, os.O_RDWR | os.O_CREAT))
            prepare(path, BUSY_SECONDS)
            self._writer = _connected(path)
            self._writer.execute("PRAGMA journal_mode = WAL")
            self._reader = _connected(path)
            self._reader.execute("PRAGMA query_only = ON")
        except (sqlite3.Error, OSError) as error:
            hint = "free some disk space, fix its permissions, or use another --data-dir"
            raise EnvironmentFailed(f"the database {path} can't be used: {error}", hint) from error

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Return the connection inside a transaction, which is committed unless the block raises.

        The block must not do anything slow, such as starting a process or waiting for another thread.
        Waiting for other threads and other processes takes at most `BUSY_SECONDS` in total.
        """
        with self._turn_to_write():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                with critical("a write transaction"):
                    yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise
        with self._changed:
            self._changed.notify_all()

    @contextmanager
    def _turn_to_write(self) -> Iterator[None]:
        last = time.monotonic() + BUSY_SECONDS
        if not self._write_lock.acquire(timeout=BUSY_SECONDS):
            raise sqlite3.OperationalError("database is locked")
        try:
            left = max(0.0, last - time.monotonic())
            self._writer.execute(f"PRAGMA busy_timeout = {int(left * 1000)}")
            yield
        finally:
            self._write_lock.release()

    def read(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """Run one query."""
        with self._read_lock:
            return self._reader.execute(sql, values).fetchall()

    def stream(self, sql: str, *values: Any) -> Iterator[sqlite3.Row]:
        """Run one query with too many rows for memory; other reads wait until the last row is taken."""
        with self._read_lock:
            yield from self._reader.execute(sql, values)

    def wait_for_event(self, run_id: str | None, after: int, timeout: float) -> bool:
        """Wait until a run (None: any run) has an event later than `after`; False if none comes within `timeout`."""

        def is_there() -> bool:
            if run_id is None:
                return bool(self.read("SELECT 1 FROM events WHERE id > ? LIMIT 1", after))
            return bool(self.read("SELECT 1 FROM events WHERE run_id = ? AND id > ? LIMIT 1", run_id, after))

        with self._changed:
            return self._changed.wait_for(is_there, timeout)

    def wake(self) -> None:
        """Wake everyone who waits for an event, as when the server ends."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """Close both connections."""
        with self._write_lock, self._read_lock:
            self._writer.close()
            self._reader.close()


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    # a reply that was answered with 202 must not be taken back by a power cut: its turn may have run
    connection.execute("PRAGMA synchronous = FULL")
    return connection
