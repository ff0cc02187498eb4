"""Runs followed as server-sent events: replayed from the store, then as they are committed, until the run ends."""

import json
import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator

from turngate_reference.server.api_errors import ApiError
from turngate_reference.server.states import ENDED
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.rows import StoredEvent

PAGE = 100

_log = logging.getLogger(__name__)


class EventStreams:
    """The open streams: `limit` at once, since each holds a thread; `close` ends them all.

    A stream looks every `tick` seconds whether its client is still there, and says something every `heartbeat`.
    """

    def __init__(self, limit: int = 500, *, heartbeat: float = 15.0, tick: float = 0.5) -> None:
        self.limit, self.heartbeat, self.tick = limit, heartbeat, tick
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._streams: set[EventStream] = set()

    @property
    def open(self) -> int:
        """How many streams are open."""
        return len(self._streams)

    def enter(self, stream: "EventStream") -> None:
        """Take a place; ApiError if there is none."""
        with self._lock:
            if self.open >= self.limit or self.closing.is_set():
                raise ApiError("TOO_MANY_STREAMS", f"{self.open} streams are open", "close one, or try again later")
            self._streams.add(stream)

    def leave(self, stream: "EventStream") -> None:
        """Give the place back, unless that was done before."""
        with self._lock:
            self._streams.discard(stream)

    def close(self) -> None:
        """Let every stream end, and take no more."""
        self.closing.set()


class EventStream:
    """One client's stream of a run; `close` may be called often, and also if nobody has read a line."""

    def __init__(self, streams: EventStreams, store: Store, run_id: str, gone: Callable[[], bool]) -> None:
        self._streams, self._store, self._run_id, self._gone = streams, store, run_id, gone
        streams.enter(self)

    def close(self) -> None:
        """Give the place back."""
        self._streams.leave(self)

    def lines(self, after: int, *, ended: bool) -> Iterator[bytes]:
        """Return what is sent; `ended` says that the run had ended before."""
        yield b"retry: 1000\n\n"  # also sends the headers
        silent = 0.0
        try:
            while not self._over():
                events = runs.events(self._store, self._run_id, after, PAGE)
                for event in events:
                    yield as_lines(event)
                    ended = ended or (event.type == "state" and event.data["state"] in ENDED)
                    after, silent = event.id, 0.0
                if not events and ended:
                    return
                if not events and not self._store.wait_for_event(self._run_id, after, self._streams.tick):
                    silent += self._streams.tick
                if silent >= self._streams.heartbeat:
                    silent = 0.0
                    yield b": heartbeat\n\n"
        except sqlite3.Error as error:
            _log.warning("a stream of %s ends: %s", self._run_id, error)  # its client asks again, and is told

    def _over(self) -> bool:
        return self._streams.closing.is_set() or self._gone()


def as_lines(event: StoredEvent) -> bytes:
    """Write an event; JSON escapes what could end its line."""
    data = json.dumps(event.data | {"at": event.at})
    return f"id: {event.id}\nevent: {event.type}\ndata: {data}\n\n".encode()
