"""Tests of slow, idle and too many clients over real sockets."""

import http.client
import json
import logging
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.patience import PATIENCE
from tests.reference.caller import Caller
from tests.reference.wire import exchange, following, served
from turngate_reference.server.store.events import TextEvent, add_event
from turngate_reference.server.web import listener
from turngate_reference.server.web.listener import Limits
from turngate_reference.server.web.streams import EventStreams

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF_SENT_BODY = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"


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


class Clock:
    """A stand-in for the module `time` of the connections, whose time a test can let fly."""

    def __init__(self) -> None:
        self._since: float | None = None

    def fly(self) -> None:
        """Let hours pass in each second from now on."""
        self._since = time.monotonic()

    def time(self) -> float:
        """Return the seconds of the wall clock, which don't fly."""
        return time.time()

    def monotonic(self) -> float:
        """Return the seconds of this clock."""
        now = time.monotonic()
        return now if self._since is None else self._since + (now - self._since) * 10_000


@pytest.fixture(name="clock")
def _clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(listener, "time", clock)
    return clock


@pytest.fixture(autouse=True)
def _checking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "TICK", 0.02)


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


def answer(client: socket.socket) -> tuple[int, bytes]:
    """Read an answer."""
    response = http.client.HTTPResponse(client)
    response.begin()
    return response.status, response.read()


def at_end(client: socket.socket) -> bytes:
    """Read until the server closes the connection; return what was read."""
    parts = []
    try:
        while part := client.recv(2**16):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@pytest.mark.parametrize(
    "sent, limits",
    [
        (b"GET /healthz HTTP/1.1\r\nHost: loc", Limits(headers=0.0, body=1e6, idle=1e6)),
        (HALF_SENT_BODY, Limits(headers=1e6, body=0.0, idle=1e6)),
    ],
)
def test_a_request_must_come_in_time(caller: Caller, opened: ExitStack, sent: bytes, limits: Limits) -> None:
    """Headers and body have deadlines; after that, the answer is 408, and the connection is closed."""
    with served(caller, limits) as port:
        client = connected(opened, port, sent)
        status, body = answer(client)
        assert (status, json.loads(body)["code"]) == (408, "REQUEST_TIMEOUT")
        assert at_end(client) == b""


@pytest.mark.parametrize("sent", [b"", b"\r\n", HEALTH])
def test_an_idle_connection_is_closed(caller: Caller, opened: ExitStack, clock: Clock, sent: bytes) -> None:
    """An idle connection is closed without an answer, whether it was used before or not."""
    with served(caller, Limits(headers=1e9, body=1e9, idle=1000.0)) as port:
        client = connected(opened, port, sent)
        if sent == HEALTH:
            assert answer(client)[0] == 200
        clock.fly()
        assert at_end(client) == b""


def test_an_event_stream_outlives_the_idle_limit(caller: Caller, clock: Clock) -> None:
    """A stream that sends heartbeats and events stays open longer than a connection may be idle."""
    reported = caller.post("/v1/runs", {"engine": "codex", "prompt": "x"}).json
    caller.streams.heartbeat = caller.streams.tick = 0.25
    limits = Limits(headers=1000.0, body=1000.0, idle=1000.0, stalled=1e9)
    with served(caller, limits) as port, following(port, reported["links"]["events"]) as stream:
        clock.fly()
        while stream.comments.count("heartbeat") < 4 and (line := stream.line()):
            stream.comments += [line[2:-1]] if line.startswith(": ") else []
        caller.post(f"/v1/runs/{reported['run_id']}/cancel")
        assert [event.data["state"] for event in stream.all()] == ["canceled"]


def test_the_connection_that_is_idle_longest_makes_room(caller: Caller, opened: ExitStack) -> None:
    """At the limit, the longest idle connection is closed for a new client; event streams are kept."""
    reported = caller.post("/v1/runs", {"engine": "codex", "prompt": "x"}).json
    with served(caller, Limits(connections=3)) as port, following(port, reported["links"]["events"]) as stream:
        assert stream.next()
        first, second = (connected(opened, port, HEALTH) for _ in range(2))
        assert [answer(client)[0] for client in (first, second)] == [200, 200]
        for _ in range(20):  # meanwhile, the thread that answered the second client ends its work
            first.sendall(HEALTH)
            assert answer(first)[0] == 200
        assert exchange(port, HEALTH).status == 200
        assert at_end(second) == b""
        first.sendall(HEALTH)
        assert answer(first)[0] == 200
        caller.post(f"/v1/runs/{reported['run_id']}/cancel")
        assert stream.all()


def test_who_finds_no_room_is_told(caller: Caller) -> None:
    """If every connection is busy, a new client gets 503 at once, as a problem document."""
    reported = caller.post("/v1/runs", {"engine": "codex", "prompt": "x"}).json
    with served(caller, Limits(connections=1)) as port, following(port, reported["links"]["events"]) as stream:
        assert stream.next()
        refused = exchange(port, HEALTH)
        assert (refused.status, refused.json["code"]) == (503, "TOO_MANY_CONNECTIONS")
        assert refused.headers["Retry-After"]
        assert refused.headers["Content-Type"] == "application/problem+json"
        caller.post(f"/v1/runs/{reported['run_id']}/cancel")
        assert stream.all()


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
    with served(caller, Limits(stalled=2.5, pace=1)) as port:
        client = connected(opened, port, request, room=4096)
        assert client.recv(1)
        with following(port, reported["links"]["events"]) as stream:
            assert len(stream.all()) == 402
        assert all(streams.left.acquire(timeout=PATIENCE) for _ in range(2))
        assert len(at_end(client)) < 400 * 2**16


def test_requests_are_not_queued(caller: Caller, opened: ExitStack) -> None:
    """If a client sends many requests at once, only the first few are answered, and the connection is closed."""
    with served(caller) as port:
        client = connected(opened, port, HEALTH * 400)
        said = at_end(client)
    # two, or some more if the requests arrive in pieces
    assert said.count(b"HTTP/1.1 200 OK") in range(2, 40)


def test_a_request_may_come_before_the_last_answer_is_done(caller: Caller, opened: ExitStack) -> None:
    """A client may send its next request before the last answer is complete, and keeps its connection."""
    with served(caller) as port:
        client = connected(opened, port, HEALTH * 2)
        said = b""
        for count, following in ((2, HEALTH), (3, b"")):
            while said.count(b"HTTP/1.1 200 OK") < count:
                part = client.recv(2**16)
                assert part, said
                said += part
            client.sendall(following)


def test_bodies_that_are_arriving_are_bounded_together(caller: Caller, opened: ExitStack) -> None:
    """If all unfinished bodies together exceed the limit, the oldest requests are rejected."""
    with served(caller, Limits(unfinished=0)) as port:
        client = connected(opened, port, HALF_SENT_BODY + b"{")
        assert answer(client)[0] == 408


def test_a_client_that_keeps_its_connection_is_answered_on_it(caller: Caller) -> None:
    """A client can send one request after the other on one connection."""
    with served(caller) as port, closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as client:
        client.connect()
        first = client.sock
        for _ in range(3):
            client.request("GET", "/healthz")
            assert client.getresponse().read()
            assert client.sock is first


def test_a_client_that_sends_no_more_is_answered(
    caller: Caller, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that closes its sending side gets its answers, also if the server notices it during its work."""
    ended, app = threading.Semaphore(0), caller.app.wsgi_app
    channel = listener.Connections.channel_class
    handle_read = channel.handle_read

    def received(self: Any) -> None:
        handle_read(self)
        ended.release()

    def slow(*args: Any) -> Any:
        assert ended.acquire(timeout=PATIENCE)  # the request
        assert ended.acquire(timeout=PATIENCE)  # its end
        return app(*args)

    monkeypatch.setattr(channel, "handle_read", received)
    monkeypatch.setattr(caller.app, "wsgi_app", slow)
    with served(caller) as port:
        client = connected(opened, port, HEALTH)
        client.shutdown(socket.SHUT_WR)
        said = at_end(client)
    assert said.startswith(b"HTTP/1.1 200 OK")
    assert json.loads(said.partition(b"\r\n\r\n")[2])


@pytest.mark.parametrize("count", [1, 2])
def test_every_request_before_the_end_is_answered(caller: Caller, opened: ExitStack, count: int) -> None:
    """A request, or two at once, before the end of what a client sends, are answered each time."""
    with served(caller) as port:
        for _ in range(20):
            client = connected(opened, port, HEALTH * count)
            client.shutdown(socket.SHUT_WR)
            assert at_end(client).count(b"HTTP/1.1 200 OK") == count


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\n", HALF_SENT_BODY])
def test_a_client_that_sends_no_more_of_a_request_is_dropped(caller: Caller, opened: ExitStack, sent: bytes) -> None:
    """The connection of a client that ends before its request is complete is closed without an answer."""
    with served(caller, Limits(headers=1e6, body=1e6, idle=1e6)) as port:
        client = connected(opened, port, sent)
        client.shutdown(socket.SHUT_WR)
        assert at_end(client) == b""


def test_a_client_that_sends_no_more_gets_the_events_so_far(caller: Caller, opened: ExitStack) -> None:
    """Its stream of events ends with those that have happened."""
    reported = caller.post("/v1/runs", {"engine": "codex", "prompt": "x"}).json
    with served(caller) as port:
        client = connected(
            opened, port, f"GET {reported['links']['events']} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        )
        client.shutdown(socket.SHUT_WR)
        assert b"event: state\n" in at_end(client)


@pytest.mark.parametrize("sent", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", HEALTH])
def test_a_client_that_leaves_early_is_no_error(
    caller: Caller, opened: ExitStack, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, sent: bytes
) -> None:
    """If a client has left before its answer, also that to a malformed request, nothing is wrong in the log."""
    answering, left, served_all = threading.Event(), threading.Event(), threading.Event()
    channel = listener.Connections.channel_class
    close, service = channel.handle_close, channel.service

    def closed(self: Any) -> None:
        close(self)
        left.set()

    def late(self: Any) -> None:
        service(self)
        served_all.set()

    def write(self: Any, data: bytes) -> int:
        answering.set()
        assert left.wait(PATIENCE)
        return int(write_soon(self, data))

    write_soon = channel.write_soon
    monkeypatch.setattr(channel, "handle_close", closed)
    monkeypatch.setattr(channel, "service", late)
    monkeypatch.setattr(channel, "write_soon", write)
    with served(caller) as port:
        client = connected(opened, port, sent)
        assert answering.wait(PATIENCE)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        assert served_all.wait(PATIENCE)
    # on a busy machine a request may wait for a thread, and a thread may end late, of which waitress warns
    noted = [record for record in caplog.records if record.levelno >= logging.WARNING]
    failed = [record for record in noted if record.levelno >= logging.ERROR or not record.name.startswith("waitress")]
    assert [record.getMessage() for record in failed] == []
