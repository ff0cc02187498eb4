"""Tests of slow, idle and too many clients over real sockets."""

import http.client
import logging
import socket
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest

from tests.patience import PATIENCE
from tests.reference.caller import Caller
from tests.reference.wire import exchange, following, served
from turngate_reference.server.store.events import TextEvent, add_event
from turngate_reference.server.web.streams import EventStreams

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALVES = (b"", b"GET /healthz HTTP/1.1\r\nHost: loc", b"POST /v1/runs HTTP/1.1\r\nContent-Length: 9\r\n\r\n{")


class Counted(EventStreams):
    """EventStreams that signal each freed place."""

    def __init__(self) -> None:
        super().__init__()
        self.left = threading.Semaphore(0)

    def leave(self, place: object) -> None:
        """Free a place, and signal it once."""
        before = self.open
        super().leave(place)
        if self.open < before:
            self.left.release()


@pytest.fixture(name="opened")
def _opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connected(opened: ExitStack, port: int, sent: bytes = b"", room: int | None = None) -> socket.socket:
    """Connect and send something; `room` is the client's receive buffer in bytes."""
    client = opened.enter_context(socket.socket())
    client.settimeout(PATIENCE)
    if room is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    client.connect(("127.0.0.1", port))
    client.sendall(sent)
    return client


def at_end(client: socket.socket) -> bytes:
    """Read until the server closes the connection; return what was read."""
    parts = []
    try:
        while part := client.recv(2**16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@pytest.mark.long
def test_a_silent_connection_is_closed(caller: Caller, opened: ExitStack) -> None:
    """A client that sends nothing, or nothing more of its headers or its body, loses its connection."""
    with served(caller, idle=1) as port:
        for client in [connected(opened, port, sent) for sent in HALVES]:
            assert at_end(client) == b""


@pytest.mark.long
def test_an_event_stream_outlives_the_idle_limit(caller: Caller) -> None:
    """A stream that sends heartbeats and events stays open longer than a connection may be idle."""
    reported = caller.post("/v1/runs", {"engine": "codex", "prompt": "x"}).json
    caller.streams.heartbeat = caller.streams.tick = 0.25
    with served(caller, idle=1) as port, following(port, reported["links"]["events"]) as stream:
        while stream.comments.count("heartbeat") < 10 and (line := stream.line()):
            stream.comments += [line[2:-1]] if line.startswith(": ") else []
        caller.post(f"/v1/runs/{reported['run_id']}/cancel")
        assert [event.data["state"] for event in stream.all()] == ["canceled"]


def test_who_finds_no_room_waits_for_it(caller: Caller, opened: ExitStack) -> None:
    """At the limit of connections, a new client is answered once another one leaves."""
    with served(caller, most=1) as port:
        first, second = connected(opened, port, HEALTH), connected(opened, port, HEALTH)
        assert first.recv(2**16).startswith(b"HTTP/1.1 200 OK")
        second.settimeout(0.2)
        with pytest.raises(TimeoutError):
            second.recv(1)
        first.close()
        second.settimeout(PATIENCE)
        assert second.recv(2**16).startswith(b"HTTP/1.1 200 OK")


@pytest.mark.long
def test_a_reader_that_does_not_read_is_dropped(caller: Caller, opened: ExitStack) -> None:
    """Its stream's place is freed, and other clients have received every event meanwhile."""
    reported = caller.post("/v1/runs", {"engine": "codex", "prompt": "x"}).json
    with caller.core.store.writing() as connection:
        for _ in range(400):
            add_event(connection, reported["run_id"], TextEvent(1, "x" * 2**16))
    caller.post(f"/v1/runs/{reported['run_id']}/cancel")
    request = f"GET {reported['links']['events']} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    caller = Caller(caller.core, streams=(streams := Counted()))
    with served(caller, stalled=2.5) as port:
        client = connected(opened, port, request, room=4096)
        assert client.recv(1)
        with following(port, reported["links"]["events"]) as stream:
            assert len(stream.all()) == 402
        assert all(streams.left.acquire(timeout=PATIENCE) for _ in range(2))
        assert len(at_end(client)) < 400 * 2**16


def test_a_client_that_keeps_its_connection_is_answered_on_it(caller: Caller) -> None:
    """A client can send one request after the other on one connection."""
    with served(caller) as port, closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as client:
        client.connect()
        first = client.sock
        for _ in range(3):
            client.request("GET", "/healthz")
            assert client.getresponse().read()
            assert client.sock is first


def test_a_client_that_leaves_early_is_no_error(
    caller: Caller, opened: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    """If clients leave before their answer, or in the middle of their request, nothing is wrong in the log."""
    with served(caller) as port:
        for sent in (HEALTH, HEALTH, *HALVES) * 10:
            client = connected(opened, port, sent)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            client.close()
        assert exchange(port, HEALTH).status == 200
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_an_open_request_is_answered_at_the_end(
    caller: Caller, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that ends first answers the requests in work."""
    entered, app = threading.Event(), caller.app.wsgi_app

    def slow(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        entered.set()
        assert caller.streams.closing.wait(PATIENCE)
        return app(environ, start)

    monkeypatch.setattr(caller.app, "wsgi_app", slow)
    with served(caller) as port:
        client = connected(opened, port, HEALTH)
        assert entered.wait(PATIENCE)
    assert at_end(client).startswith(b"HTTP/1.1 200 OK")
