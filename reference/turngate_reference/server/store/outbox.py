"""Writes the data of a running turn on a separate thread, so that reading an engine never waits for the store."""

import logging
import sqlite3
import threading
from collections import deque
from collections.abc import Callable

from turngate_reference.server.store.database import Store

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0
MAX_PENDING = 8 * 2**20
Write = Callable[[sqlite3.Connection], None]


class Outbox:
    """Performs writes in order, as soon as the store allows; pending ones hold at most `MAX_PENDING` characters."""

    def __init__(self, store: Store) -> None:
        self.store = store
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
