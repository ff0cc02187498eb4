"""Server-sent events: the past and new events of a run, and news for an open page."""

import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator

from turngate_reference.server.requests import ApiError
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.events import StateEvent, StoredEvent
from turngate_reference.states import ENDED

_log = logging.getLogger(__name__)


PAGE = 100
PAUSE = 0.2  # seconds between two pieces of news: an engine may say much at once


class EventStreams:
    """The open streams: at most `limit`, since each holds a thread; `close` ends them all.

    A stream checks every `tick` seconds whether its client is still there, and sends a heartbeat every `heartbeat`.
    """

    def __init__(self, limit: int = 500, *, heartbeat: float = 15.0, tick: float = 0.5) -> None:
        self.limit, self.heartbeat, self.tick = limit, heartbeat, tick
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._places: set[object] = set()

    @property
    def open(self) -> int:
        """How many streams are open."""
        return len(self._places)

    def enter(self) -> object:
        """Take a place; ApiError if none is free."""
        with self._lock:
            if self.open >= self.limit or self.closing.is_set():
                raise ApiError("TOO_MANY_STREAMS", f"{self.open} streams are open", "close one, or retry later")
            self._places.add(place := object())
        return place

    def leave(self, place: object) -> None:
        """Free a place, unless that was done before."""
        with self._lock:
            self._places.discard(place)

    def close(self) -> None:
        """End every stream, and accept no more."""
        self.closing.set()

    def news(self, store: Store, run_id: str | None, after: int, *, gone: Callable[[], bool]) -> Iterator[bytes]:
        """Return an event whenever a run changes (None: whenever any run changes its state).

        It holds only the id of the last event, from which a reconnecting client continues.
        """
        yield b"retry: 1000\n\n"
        sent = time.monotonic()
        try:
            while not (self.closing.is_set() or gone()):
                after, is_news = runs.progress(store, run_id, after)
                if is_news:
                    yield f"id: {after}\nevent: news\ndata: {{}}\n\n".encode()
                    sent = time.monotonic()
                    self.closing.wait(PAUSE)
                    continue
                if time.monotonic() - sent >= self.heartbeat:
                    yield b": heartbeat\n\n"
                    sent = time.monotonic()
                store.wait_for_event(run_id, after, self.tick)
        except sqlite3.Error as error:
            _log.warning("a stream of updates ended: %s", error)

    def follow(
        self, store: Store, run_id: str, after: int, *, ended: bool, gone: Callable[[], bool]
    ) -> Iterator[bytes]:
        """Return the events of a run for one client; `ended` says that the run has already ended.

        A client that is `gone` may still read, if it has only closed its sending side: it gets what happened so far.
        """
        yield b"retry: 1000\n\n"  # also sends the headers
        silent = 0.0
        try:
            while not self.closing.is_set():
                events = runs.events(store, run_id, after, PAGE)
                for event in events:
                    yield as_lines(event)
                    if isinstance(event.data, StateEvent):  # a failed run may have been continued since
                        ended = event.data.state in ENDED
                    after, silent = event.id, 0.0
                if not events and (ended or gone()):
                    return
                if not events and not store.wait_for_event(run_id, after, self.tick):
                    silent += self.tick
                if silent >= self.heartbeat:
                    silent = 0.0
                    yield b": heartbeat\n\n"
        except sqlite3.Error as error:
            _log.warning(
                "an event stream of %s ended: %s", run_id, error
            )  # its client reconnects, and gets the problem


def as_lines(event: StoredEvent) -> bytes:
    """Format an event; JSON escapes line breaks."""
    data = json.dumps(event.as_dict() | {"at": event.at})
    return f"id: {event.id}\nevent: {event.type}\ndata: {data}\n\n".encode()
