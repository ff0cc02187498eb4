"""Clients that are slow, idle or too many, over real sockets."""

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from tests.reference.caller import Caller
from tests.reference.wire import PATIENCE, exchange, following, served
from turngate_reference.server.store import runs
from turngate_reference.server.web import listener
from turngate_reference.server.web.connections import Limits
from turngate_reference.server.web.streams import EventStreams

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF_SENT_BODY = b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"


class Counted(EventStreams):
    """EventStreams that tell how many were left."""

    def __init__(self) -> None:
        super().__init__()
        self.left = threading.Semaphore(0)

    def leave(self, place: object) -> None:
        """Free a place, and count that once."""
        before = self.open
        super().leave(place)
        if self.open < before:
            self.left.release()


@pytest.fixture(autouse=True)
def _checking_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "TICK", 0.02)


@pytest.fixture(name="opened")
def _opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def connected(opened: ExitStack, port: int, sent: bytes = b"", room: int | None = None) -> socket.socket:
    """Connect, and send something; `room` is how many bytes the client's system takes before the client reads them."""
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
    """Read until the server closes the connection."""
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
    """Headers and body each have a deadline, after which the answer is 408 and the connection ends."""
    with served(caller, limits) as port:
        client = connected(opened, port, sent)
        status, body = answer(client)
        assert (status, json.loads(body)["code"]) == (408, "REQUEST_TIMEOUT")
        assert at_end(client) == b""


@pytest.mark.parametrize("sent", [b"", b"\r\n", HEALTH])
def test_an_idle_connection_is_closed(caller: Caller, opened: ExitStack, sent: bytes) -> None:
    """Whether it was used before or not, and without an answer that nobody asked for."""
    with served(caller, Limits(headers=1e6, body=1e6, idle=1.0)) as port:
        client = connected(opened, port, sent)
        if sent == HEALTH:
            assert answer(client)[0] == 200
        assert at_end(client) == b""


def test_an_event_stream_outlives_the_idle_limit(caller: Caller) -> None:
    """Heartbeats and events come although nothing was sent for longer than a connection may be idle."""
    told = caller.post("/v1/runs", {"engine": "codex", "prompt": "x"}).json
    caller.streams.heartbeat = caller.streams.tick = 0.25
    limits = Limits(headers=0.5, body=0.5, idle=0.5)
    with served(caller, limits) as port, following(port, told["links"]["events"]) as stream:
        while stream.comments.count("heartbeat") < 4 and (line := stream.line()):
            stream.comments += [line[2:-1]] if line.startswith(": ") else []
        caller.post(f"/v1/runs/{told['run_id']}/cancel")
        assert [event.data["state"] for event in stream.all()] == ["canceled"]


def test_the_connection_that_is_idle_longest_makes_room(caller: Caller, opened: ExitStack) -> None:
    """At the limit a new client is answered; the one that has been silent longest is closed, and no event stream."""
    told = caller.post("/v1/runs", {"engine": "codex", "prompt": "x"}).json
    with served(caller, Limits(connections=3)) as port, following(port, told["links"]["events"]) as stream:
        assert stream.next()
        first, second = (connected(opened, port, HEALTH) for _ in range(2))
        assert [answer(client)[0] for client in (first, second)] == [200, 200]
        first.sendall(HEALTH)
        assert answer(first)[0] == 200
        assert exchange(port, HEALTH).status == 200
        assert at_end(second) == b""
        first.sendall(HEALTH)
        assert answer(first)[0] == 200
        caller.post(f"/v1/runs/{told['run_id']}/cancel")
        assert stream.all()


def test_who_finds_no_room_is_told(caller: Caller) -> None:
    """With every connection in work the answer is 503 at once, as a problem document."""
    told = caller.post("/v1/runs", {"engine": "codex", "prompt": "x"}).json
    with served(caller, Limits(connections=1)) as port, following(port, told["links"]["events"]) as stream:
        assert stream.next()
        refused = exchange(port, HEALTH)
        assert (refused.status, refused.json["code"]) == (503, "TOO_MANY_CONNECTIONS")
        assert refused.headers["Retry-After"]
        assert refused.headers["Content-Type"] == "application/problem+json"
        caller.post(f"/v1/runs/{told['run_id']}/cancel")
        assert stream.all()


@pytest.mark.long
def test_a_reader_that_does_not_read_is_dropped(caller: Caller, opened: ExitStack) -> None:
    """Its place among the streams is free again, and others have had every event meanwhile."""
    told = caller.post("/v1/runs", {"engine": "codex", "prompt": "x"}).json
    with caller.core.store.writing() as connection:
        for _ in range(400):
            runs.add_event(connection, told["run_id"], "text", {"text": "x" * 2**16})
    caller.post(f"/v1/runs/{told['run_id']}/cancel")
    request = f"GET {told['links']['events']} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    caller = Caller(caller.core, streams=(streams := Counted()))
    with served(caller, Limits(stalled=2.5, pace=1)) as port:
        client = connected(opened, port, request, room=4096)
        assert client.recv(1)
        with following(port, told["links"]["events"]) as stream:
            assert len(stream.all()) == 402
        assert all(streams.left.acquire(timeout=PATIENCE) for _ in range(2))
        assert len(at_end(client)) < 400 * 2**16


def test_requests_are_not_queued(caller: Caller, opened: ExitStack) -> None:
    """Of many requests sent at once two are answered, and the connection ends. No client can pile up work."""
    with served(caller) as port:
        client = connected(opened, port, HEALTH * 400)
        said = at_end(client)
    assert said.count(b"HTTP/1.1 200 OK") == 2


def test_a_request_may_come_before_the_last_answer_is_done(caller: Caller, opened: ExitStack) -> None:
    """A client that is quicker than the thread that answers it loses neither its request nor its connection."""
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
    """Beyond the limit the oldest are refused."""
    with served(caller, Limits(unfinished=0)) as port:
        client = connected(opened, port, HALF_SENT_BODY + b"{")
        assert answer(client)[0] == 408


def test_a_client_that_keeps_its_connection_is_answered_on_it(caller: Caller) -> None:
    """One request after the other goes over one connection."""
    with served(caller) as port, closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as client:
        client.connect()
        first = client.sock
        for _ in range(3):
            client.request("GET", "/healthz")
            assert client.getresponse().read()
            assert client.sock is first
