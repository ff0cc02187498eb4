"""The SQLite file in which a server keeps everything that must outlive it.

Writes the data of a running turn on a separate thread, so that reading an engine never waits for the store.
"""

import logging
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from turngate import MachineError
from turngate.files import open_private
from turngate.process.launch import critical
from turngate_reference.server.store.upgrade import prepare

log = logging.getLogger(__name__)


BUSY_SECONDS = 5.0

RETRY_SECONDS = 1.0
MAX_PENDING = 8 * 2**20
Write = Callable[[sqlite3.Connection], None]
T = TypeVar("T")


class DatabaseGoneError(sqlite3.OperationalError):
    """The file was moved away or deleted while it is in use: what is written to it now would be lost."""


class Store:
    """One connection that writes, one transaction at a time, and one that reads; both usable in any thread.

    Errors of sqlite3 (a full disk, a lock that another process holds) are passed on unchanged, and nothing of the
    transaction is written.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, and create or upgrade its tables; MachineError if it can't be used."""
        self._changed = threading.Condition()
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
        with self._changed:
            self._changed.notify_all()

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


class Outbox:
    """Performs writes in order, as soon as the store allows; pending ones hold at most `MAX_PENDING` characters.

    `wait` waits some seconds if the store can't be written, and returns whether to give up.
    """

    def __init__(self, store: Store, wait: Callable[[float], bool]) -> None:
        self.store, self._wait = store, wait
        self._pending: deque[tuple[Write, int]] = deque()
        self._size, self._has_thread = 0, False
        self._lock, self._one_writer = threading.Lock(), threading.Lock()
        self._closed = threading.Event()

    def put(self, write: Write, size: int = 0) -> bool:
        """Queue a write and return at once; False if there is no room for its `size`, or the outbox is closed.

        `write` may be called again if its transaction fails.
        """
        with self._lock:
            if self._closed.is_set() or self._size + size > MAX_PENDING:
                return False
            self._pending.append((write, size))
            self._size += size
            if not self._has_thread:
                self._start()
            return True

    def eventually(self, action: Callable[[], T]) -> T:
        """Write everything pending, then perform `action`, as soon as the store allows.

        After `wait` has given up, the last sqlite3.Error is raised.
        """
        while True:
            try:
                self.flush()
                return action()
            except sqlite3.Error:
                log.exception("the store is not available yet")
                if self._wait(RETRY_SECONDS):
                    raise

    def flush(self) -> None:
        """Write everything pending before returning; sqlite3.Error if the store can't be written now."""
        with self._one_writer:
            with self._lock:
                batch = [*self._pending]
            if not batch:
                return
            with self.store.writing() as connection:
                for write, _ in batch:
                    _make(write, connection)
            with self._lock:
                for _ in batch:
                    self._size -= self._pending.popleft()[1]

    def close(self) -> None:
        """Accept no more writes, and drop those still pending."""
        self._closed.set()

    def _start(self) -> None:
        thread = threading.Thread(target=self._work, name="turngate-outbox", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            log.warning("can't start a thread to write events; they will be written at the end of the turn")
        else:
            self._has_thread = True

    def _work(self) -> None:
        """Write until nothing is pending."""
        while self._is_needed():
            try:
                self.flush()
            except sqlite3.Error as error:
                log.warning("can't write the events of a turn yet: %s", error)
                self._closed.wait(RETRY_SECONDS)

    def _is_needed(self) -> bool:
        with self._lock:
            self._has_thread = bool(self._pending) and not self._closed.is_set()
            return self._has_thread


def _make(write: Write, connection: sqlite3.Connection) -> None:
    try:
        write(connection)
    except sqlite3.Error:
        raise
    except Exception:
        # it would fail every time and block all later writes
        log.exception("dropped an event that can't be written")
