"""The backend as the proxy of a probed CLI: nothing leaves loopback, and every attempt is told."""

import socket
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from turngate_probes.stub_model import StubBackend


def _ask(connection: socket.socket, sent: str) -> bytes:
    """Send, and read until the other side has closed."""
    connection.sendall(sent.encode())
    received = b""
    while data := connection.recv(65536):
        received += data
    return received


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
    """A tunnel or request to another machine is refused, told as egress and not as an exchange."""
    before = time.time()
    assert _ask(dial(), f"{line} HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 403")
    (attempt,) = backend.egress()
    assert (attempt.method, attempt.host, attempt.port) == expected
    assert before <= attempt.at <= time.time()
    assert backend.exchanges() == ()


def test_request_to_itself(backend: StubBackend, dial: Callable[[], socket.socket]) -> None:
    """A request that comes to the backend by way of itself is answered as any other."""
    sent = f"GET {backend.url}/v1/models?a=b HTTP/1.1\r\nConnection: close\r\n\r\n"
    assert _ask(dial(), sent).startswith(b"HTTP/1.1 200")
    (exchange,) = backend.exchanges()
    assert (exchange.path, exchange.protocol) == ("/v1/models?a=b", "models")
    assert backend.egress() == ()


def test_tunnel_to_itself(backend: StubBackend, dial: Callable[[], socket.socket]) -> None:
    """A tunnel that leads back to the backend is one, and what comes through it is answered."""
    port = urlsplit(backend.url).port
    tunnel = f"CONNECT localhost:{port} HTTP/1.1\r\nConnection: close\r\n\r\n"
    inner = "GET /v1/models HTTP/1.1\r\nConnection: close\r\n\r\n"
    first, _, second = _ask(dial(), tunnel + inner).partition(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 200")
    assert second.startswith(b"HTTP/1.1 200")
    assert [(each.protocol, each.reply) for each in backend.exchanges()] == [
        ("proxy", "tunnel"),
        ("models", "models"),
    ]
    assert backend.egress() == ()


@pytest.mark.parametrize("line", ["CONNECT 127.0.0.1:1", "GET http://localhost:1/x"])
def test_other_port_of_loopback(backend: StubBackend, dial: Callable[[], socket.socket], line: str) -> None:
    """Another port of this machine is refused, but it is no egress; the journal has it as unknown."""
    assert _ask(dial(), f"{line} HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 403")
    assert backend.egress() == ()
    (exchange,) = backend.exchanges()
    assert (exchange.path, exchange.protocol) == (line.split()[1], None)


def test_tunnel_to_nowhere(backend: StubBackend, dial: Callable[[], socket.socket]) -> None:
    """A tunnel without a host and a port is a bad request, and journalled."""
    assert _ask(dial(), "CONNECT nowhere:port HTTP/1.1\r\n\r\n").startswith(b"HTTP/1.1 400")
    assert [each.reply for each in backend.exchanges()] == ["refuse 400"]
