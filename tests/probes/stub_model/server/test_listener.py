"""Connections to the running backend: faults, shutdown, and its use as a proxy that keeps a CLI on loopback."""

import http.client
import socket
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.patience import PATIENCE
from turngate_probes.stub_model import Cut, Hang, Refuse, StubBackend, StubRule

_GENERATING = {
    "/v1/responses": {"input": "hi"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1beta/models/m:generateContent": {"contents": [{"parts": [{"text": "hi"}]}]},
    "/v1/messages": {"messages": [{"role": "user", "content": "hi"}]},
}


def _everything(connection: socket.socket) -> bytes:
    """Read until the other side has closed."""
    received = b""
    while data := connection.recv(65536):
        received += data
    return received


def _answer(connection: socket.socket, sent: str) -> bytes:
    """Send a request, and read until the other side has closed."""
    connection.sendall(sent.encode())
    return _everything(connection)


def _post(path: str, body: bytes) -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (path.encode(), len(body), body)


@pytest.mark.parametrize("path", _GENERATING)
def test_default_text(ask: Callable[..., Any], path: str) -> None:
    """Every protocol says "ok" without a script."""
    answer = ask("POST", path, _GENERATING[path])
    assert answer.status == 200
    assert b'"ok"' in answer.body


@pytest.mark.parametrize("path", _GENERATING)
@pytest.mark.parametrize("body", [b"{", b"[]", b"", b"[" * 100_000])
def test_not_json(backend: StubBackend, ask: Callable[..., Any], path: str, body: bytes) -> None:
    """A body that is no JSON object is rejected, and recorded with its protocol."""
    answer = ask("POST", path, body=body)
    (exchange,) = backend.exchanges()
    assert (answer.status, exchange.reply, exchange.body) == (400, "refuse 400", body)
    assert "JSON" in answer.document["error"]["message"]
    assert exchange.protocol is not None


@pytest.mark.parametrize("status", [401, 429, 500, 529])
def test_odd_status(backend: StubBackend, ask: Callable[..., Any], status: int) -> None:
    """Any status can be scripted, including one without a standard name."""
    backend.script(StubRule(Refuse(status)))
    assert ask("POST", "/v1/messages", {}).status == status
    assert backend.exchanges()[0].reply == f"refuse {status}"


def test_head(backend: StubBackend, dial: Callable[[], socket.socket]) -> None:
    """A HEAD request gets no body and is recorded."""
    connection = dial()
    connection.sendall(b"HEAD / HTTP/1.1\r\nConnection: close\r\n\r\n")
    received = _everything(connection)
    assert (received[:12], received[-4:]) == (b"HTTP/1.1 404", b"\r\n\r\n")
    assert [exchange.method for exchange in backend.exchanges()] == ["HEAD"]


def test_websocket_refused(backend: StubBackend, ask: Callable[..., Any]) -> None:
    """A WebSocket is refused with the status that makes clients fall back to HTTP."""
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "x"}
    assert ask("GET", "/v1/responses", headers=headers).status == 426
    (exchange,) = backend.exchanges()
    assert (exchange.protocol, exchange.reply) == ("openai.responses", "refuse 426")


def test_connection_is_kept(backend: StubBackend) -> None:
    """One connection serves many requests, including streamed ones."""
    connection = http.client.HTTPConnection(urlsplit(backend.url).netloc, timeout=PATIENCE)
    connection.connect()
    first = connection.sock
    for stream in (b"true", b"false", b"true"):
        connection.request("POST", "/v1/responses", body=b'{"stream": %b}' % stream)
        assert connection.getresponse().read()
    assert connection.sock is first
    connection.close()
    assert len(backend.exchanges()) == 3


@pytest.mark.parametrize("path", _GENERATING)
def test_cut_whole(backend: StubBackend, ask: Callable[..., Any], path: str) -> None:
    """A response that is not streamed is cut before its announced length."""
    backend.script(StubRule(Cut()))
    with pytest.raises(http.client.IncompleteRead) as raised:
        ask("POST", path, _GENERATING[path])
    assert raised.value.partial.startswith(b"{")
    assert backend.exchanges()[0].reply == "cut"


def test_cut_closes(backend: StubBackend, dial: Callable[[], socket.socket]) -> None:
    """A cut stream begins with valid events, and the connection closes without the end of the stream."""
    backend.script(StubRule(Cut()))
    connection = dial()
    connection.sendall(_post("/v1/responses", b'{"stream": true}'))
    head, _, received = _everything(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert b"event: response.output_text.delta\n" in received
    assert b"response.completed" not in received
    assert not received.endswith(b"0\r\n\r\n")


def test_hang_until_the_backend_closes(dial: Callable[[], socket.socket], backend: StubBackend) -> None:
    """A hanging request gets no bytes; closing the backend ends it."""
    backend.script(StubRule(Hang()))
    arrived = threading.Event()
    backend.on_exchange(lambda _: arrived.set())
    connection = dial()
    connection.sendall(_post("/v1/responses", b"{}"))
    assert arrived.wait(PATIENCE)
    connection.setblocking(False)  # noqa: FBT003 - the socket module's own way
    with pytest.raises(BlockingIOError):
        connection.recv(1)
    connection.settimeout(PATIENCE)
    backend.__exit__(None, None, None)
    assert _everything(connection) == b""
    assert backend.exchanges()[0].reply == "hang"


def test_hang_until_the_client_leaves(dial: Callable[[], socket.socket], backend: StubBackend) -> None:
    """A hanging request ends when its client disconnects, and leaves no thread."""
    backend.script(StubRule(Hang()))
    threads: list[threading.Thread] = []
    arrived = threading.Event()

    def note(_: object) -> None:
        threads.append(threading.current_thread())
        arrived.set()

    backend.on_exchange(note)
    connection = dial()
    connection.sendall(_post("/v1/responses", b"{}"))
    assert arrived.wait(PATIENCE)
    connection.close()
    threads[0].join(PATIENCE)
    assert not threads[0].is_alive()


def test_nothing_left_running(dial: Callable[[], socket.socket]) -> None:
    """Closing ends idle connections and every thread, and the port refuses connections afterwards."""
    before = set(threading.enumerate())
    with StubBackend() as backend:
        address = urlsplit(backend.url)
        idle = socket.create_connection((address.hostname, address.port), timeout=PATIENCE)
        idle.sendall(b"GET /v1/models HTTP/1.1\r\n\r\n")
        assert idle.recv(12) == b"HTTP/1.1 200"
    assert _everything(idle).endswith(b"}")
    idle.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(PATIENCE)
    assert not [thread for thread in set(threading.enumerate()) - before if thread.is_alive()]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address.hostname, address.port), timeout=PATIENCE)


def test_too_long(backend: StubBackend, dial: Callable[[], socket.socket]) -> None:
    """A body beyond 32 MiB is rejected by its announced length, and recorded."""
    connection = dial()
    connection.sendall(b"POST /v1/messages HTTP/1.1\r\nContent-Length: 33554433\r\n\r\n")
    received = _everything(connection)
    assert received.startswith(b"HTTP/1.1 413")
    assert b"request_too_large" in received
    assert [(exchange.protocol, exchange.reply) for exchange in backend.exchanges()] == [("anthropic", "refuse 413")]


@pytest.mark.parametrize("sent", [b"\x16\x03\x01 hello\r\n", b"FETCH /x HTTP/1.1\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
def test_no_request(backend: StubBackend, dial: Callable[[], socket.socket], sent: bytes) -> None:
    """An invalid request, or one with an unknown method, is recorded with its first line."""
    connection = dial()
    connection.sendall(sent)
    _everything(connection)
    (exchange,) = backend.exchanges()
    assert exchange.protocol is None
    assert exchange.path == sent.decode("latin-1").strip()


@pytest.mark.parametrize(
    "line, expected",
    [
        ("CONNECT example.com:443", ("CONNECT", "example.com", 443)),
        ("CONNECT 10.1.2.3:8443", ("CONNECT", "10.1.2.3", 8443)),
        ("GET http://example.com/v1/models", ("GET", "example.com", 80)),
        ("POST http://example.com:81/v1/responses", ("POST", "example.com", 81)),
    ],
)
def test_egress(
    backend: StubBackend, dial: Callable[[], socket.socket], line: str, expected: tuple[str, str, int]
) -> None:
    """A tunnel or request to another machine is refused, and reported as egress instead of an exchange."""
    before = time.time()
    assert _answer(dial(), f"{line} HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 403")
    (attempt,) = backend.egress()
    assert (attempt.method, attempt.host, attempt.port) == expected
    assert before <= attempt.at <= time.time()
    assert backend.exchanges() == ()


def test_request_to_itself(backend: StubBackend, dial: Callable[[], socket.socket]) -> None:
    """A request to the backend that comes through its own proxy is answered as usual."""
    sent = f"GET {backend.url}/v1/models?a=b HTTP/1.1\r\nConnection: close\r\n\r\n"
    assert _answer(dial(), sent).startswith(b"HTTP/1.1 200")
    (exchange,) = backend.exchanges()
    assert (exchange.path, exchange.protocol) == ("/v1/models?a=b", "models")
    assert backend.egress() == ()


def test_tunnel_to_itself(backend: StubBackend, dial: Callable[[], socket.socket]) -> None:
    """A tunnel back to the backend is opened, and requests through it are answered."""
    port = urlsplit(backend.url).port
    tunnel = f"CONNECT localhost:{port} HTTP/1.1\r\nConnection: close\r\n\r\n"
    inner = "GET /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n"
    first, _, second = _answer(dial(), tunnel + inner).partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 200")
    assert second.startswith(b"HTTP/1.1 200")
    assert [(exchange.protocol, exchange.reply) for exchange in backend.exchanges()] == [
        ("proxy", "tunnel"),
        ("models", "models"),
    ]
    assert backend.egress() == ()


@pytest.mark.parametrize("line", ["CONNECT 127.0.0.1:1", "GET http://localhost:1/x"])
def test_other_port_of_loopback(backend: StubBackend, dial: Callable[[], socket.socket], line: str) -> None:
    """A request to another port of this machine is refused and recorded as unknown, not as egress."""
    assert _answer(dial(), f"{line} HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 403")
    assert backend.egress() == ()
    (exchange,) = backend.exchanges()
    assert (exchange.path, exchange.protocol) == (line.split()[1], None)


def test_tunnel_to_nowhere(backend: StubBackend, dial: Callable[[], socket.socket]) -> None:
    """A tunnel without host and port is a bad request, and recorded."""
    assert _answer(dial(), "CONNECT nowhere:port HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert [exchange.reply for exchange in backend.exchanges()] == ["refuse 400"]
