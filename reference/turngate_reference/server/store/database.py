"""The SQLite file in which a server keeps everything that must outlive it."""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from turngate import MachineError
from turngate.files import open_private
from turngate.process.launch import critical
from turngate_reference.server.store.upgrade import prepare

BUSY_SECONDS = 5.0


class DatabaseGoneError(sqlite3.OperationalError):
    """The file was moved away or deleted while it is in use: what is written to it now would be lost."""


class Store:
    """One connection that writes, one transaction at a time, and one that reads; both usable in any thread.

    Errors of sqlite3 (a full disk, a lock that another process holds) are passed on unchanged, and nothing of the
    transaction is written.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, and create or upgrade its tables; MachineError if it can't be used."""
        self._changed, self._changes = threading.Condition(), 0
        self._write_lock, self._read_lock = threading.Lock(), threading.Lock()
        try:
            # SQLite creates its other files with the mode of this one
            os.close(open_private(path, os.O_RDWR | os.O_CREAT))
            prepare(path, BUSY_SECONDS)
            self._path, self._file = path, path.stat()
            self._writer = _connected(path)
            self._writer.execute("PRAGMA journal_mode = WAL")
            self._reader = _connected(path)
            self._reader.execute("PRAGMA query_only = ON")
        except (sqlite3.Error, OSError) as error:
            hint = "free some disk space, fix its permissions, or use another --data-dir"
            raise MachineError(f"the database {path} can't be used: {error}", hint) from error

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Return the connection inside a transaction, which is committed unless the block raises.

        The block must not do anything slow, such as starting a process or waiting for another thread.
        Waiting for other threads and other processes takes at most `BUSY_SECONDS` in total. DatabaseGoneError if the
        file isn't there any more.
        """
        self.require_file()
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
        self.wake()

    def require_file(self) -> None:
        """Raise DatabaseGoneError unless the file that was opened is still in its place."""
        try:
            is_there = os.path.samestat(self._path.stat(), self._file)
        except OSError:
            is_there = False
        if not is_there:
            raise DatabaseGoneError(f"{self._path} was moved away or deleted: put it back, or restart the server")

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
        """Wait until a run (None: any run) has an event later than `after`; False if none comes within `timeout`.

        Whoever writes doesn't wait for those who look.
        """
        last = time.monotonic() + timeout
        of_run = () if run_id is None else (run_id,)
        sql = f"SELECT 1 FROM events WHERE {'run_id = ? AND ' * len(of_run)}id > ? LIMIT 1"  # noqa: S608 - our own words
        while True:
            seen = self._changes
            if self.read(sql, *of_run, after):
                return True
            if (left := last - time.monotonic()) <= 0:
                return False
            with self._changed:
                self._changed.wait_for(lambda: self._changes != seen, left)  # noqa: B023 - it waits here

    def wake(self) -> None:
        """Wake everyone who waits for an event: one may be there, or the server ends."""
        with self._changed:
            self._changes += 1
            self._changed.notify_all()

    def close(self) -> None:
        """Close both connections."""
        with self._write_lock, self._read_lock:
            self._writer.close()
            self._reader.close()


@contextmanager
def opened(path: Path) -> Iterator[Store]:
    """Open the database that a server has made; MachineError if it is missing, can't be used, or fails later."""
    if not path.exists():
        raise MachineError(f"the server's database {path} is missing", "restore it")
    try:
        with closing(Store(path)) as store:
            yield store
    except sqlite3.Error as error:
        raise MachineError(f"the database {path} can't be used: {error}", "retry later") from error


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    connection.execute("PRAGMA foreign_keys = ON")
    # a reply that was answered with 202 must not be taken back by a power cut: its turn may have run
    connection.execute("PRAGMA synchronous = FULL")
    return connection
