"""The running backend: its script, its journal, and the life of its port."""

import http.client
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.patience import PATIENCE
from turngate_probes.stub_model import Refuse, StubBackend, StubRule, Text, ToolCall, refused_port


def test_tool_then_text(backend: StubBackend, ask: Callable[..., Any]) -> None:
    """A turn with a tool needs two rules: one for the tool call, one for the text after its result."""
    backend.script(StubRule(Text("done"), after_tool_result=True), StubRule(ToolCall("bash", {})))
    messages = [{"role": "user", "content": "hi"}]
    ask("POST", "/v1/chat/completions", {"messages": messages})
    later = [*messages, {"role": "assistant"}, {"role": "tool", "content": "x"}]
    ask("POST", "/v1/chat/completions", {"messages": later})
    assert [exchange.reply for exchange in backend.exchanges()] == ["tool_call bash", "text"]


def test_script_is_replaced(backend: StubBackend, ask: Callable[..., Any]) -> None:
    """A new script replaces the old one and starts its own counts."""
    for status in (500, 429):
        backend.script(StubRule(Refuse(status), times=1))
        assert [ask("POST", "/responses", {}).status for _ in range(2)] == [status, 200]


def test_unknown_path(backend: StubBackend, ask: Callable[..., Any]) -> None:
    """An unknown path gets 404 and is recorded with its body, without a protocol."""
    assert ask("POST", "/v1/responses/compact?a=b", {"a": "tgn-0123456789abcdef"}).status == 404
    (exchange,) = backend.exchanges()
    assert (exchange.method, exchange.path) == ("POST", "/v1/responses/compact?a=b")
    assert (exchange.protocol, exchange.reply) == (None, "refuse 404")
    assert exchange.nonces == ("tgn-0123456789abcdef",)


def test_many_at_once() -> None:
    """Several backends run at the same time, each with its own script and journal."""
    with StubBackend() as first, StubBackend() as second:
        first.script(StubRule(Refuse(401)))
        statuses = []
        for backend in (first, second):
            connection = http.client.HTTPConnection(urlsplit(backend.url).netloc, timeout=PATIENCE)
            connection.request("POST", "/v1/responses", body=b"{}")
            statuses.append(connection.getresponse().status)
            connection.close()
    assert statuses == [401, 200]
    assert [len(backend.exchanges()) for backend in (first, second)] == [1, 1]


def test_egress_that_is_provoked_is_refused_but_not_counted(
    backend: StubBackend, dial: Callable[[], socket.socket]
) -> None:
    """Attempts before it still count."""
    for host in ("10.1.2.3", "10.1.2.4"):
        connection = dial()
        connection.sendall(f"CONNECT {host}:443 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 403")
        backend.ignore_egress()
    assert [attempt.host for attempt in backend.egress()] == ["10.1.2.3"]


def test_only_in_its_context() -> None:
    """Using a backend outside its `with` block is an error that says so."""
    with pytest.raises(RuntimeError, match="entered"):
        _ = StubBackend().url


def test_refused() -> None:
    """While the port is reserved, connections to it are refused and no other process gets it."""
    with refused_port() as port:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
