"""A running backend, and a plain HTTP client for it."""

import http.client
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import pytest

from tests.patience import PATIENCE
from turngate_probes.stub_model import StubBackend


@dataclass(frozen=True, slots=True)
class Answered:
    """An HTTP response that was read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


Ask: TypeAlias = Callable[..., Answered]
Dial: TypeAlias = Callable[[], socket.socket]


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reach loopback without a proxy."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def backend() -> Iterator[StubBackend]:
    """Serve for one test."""
    with StubBackend() as serving:
        yield serving


@pytest.fixture
def ask(backend: StubBackend) -> Ask:
    """Send a request; a document is sent as JSON."""

    def send(method: str, path: str, document: object = None, **options: Any) -> Answered:
        body = json.dumps(document).encode() if document is not None else options.pop("body", None)
        connection = http.client.HTTPConnection(urlsplit(backend.url).netloc, timeout=PATIENCE)
        try:
            connection.request(method, path, body=body, **options)
            answer = connection.getresponse()
            return Answered(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    return send


@pytest.fixture
def dial(backend: StubBackend) -> Iterator[Dial]:
    """Open raw connections, closed after the test."""
    opened: list[socket.socket] = []

    def connect() -> socket.socket:
        address = urlsplit(backend.url)
        opened.append(socket.create_connection((address.hostname, address.port), timeout=PATIENCE))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()
