"""Nonces, and what the journal records of a request."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from turngate_probes.stub_model import NONCE, Exchange, StubBackend, new_nonce
from turngate_probes.stub_model.answers import nonces_in

_NONCES = st.binary(min_size=8, max_size=8).map(lambda digits: "tgn-" + digits.hex())


def test_new_nonce() -> None:
    """A new nonce matches NONCE, and no two are equal."""
    made = {new_nonce() for _ in range(100)}
    assert len(made) == 100
    assert all(NONCE.fullmatch(nonce) for nonce in made)


@given(nonces=st.lists(_NONCES, unique=True, max_size=5), between=st.sampled_from(["\n", "é", '"', " ", "z"]))
def test_nonces_in(nonces: list[str], between: str) -> None:
    """Nonces are found in order, once each, whatever surrounds them and however JSON escapes it."""
    text = between + between.join(nonces + nonces[::-1]) + between
    assert nonces_in(json.dumps({"a": [text]}).encode()) == tuple(nonces)


def test_nonces_in_no_text() -> None:
    """Nonces are found in a body that isn't valid text."""
    assert nonces_in(b"\xff\xfetgn-0123456789abcdef\x80") == ("tgn-0123456789abcdef",)


def test_an_exchange(backend: StubBackend, ask: Callable[..., Any]) -> None:
    """An exchange holds the request and the response."""
    nonce, before = new_nonce(), time.time()
    document = {
        "model": "m",
        "messages": [{"role": "system", "content": nonce}, {"role": "user", "content": "hi"}],
        "tools": [{"type": "function", "function": {"name": "bash"}}],
    }
    ask("POST", "/v1/chat/completions?x=1", document)
    (exchange,) = backend.exchanges()
    assert before <= exchange.at <= time.time()
    assert exchange == Exchange(
        at=exchange.at,
        method="POST",
        path="/v1/chat/completions?x=1",
        protocol="openai.chat",
        model="m",
        user_texts=("hi",),
        nonces=(nonce,),
        tools=("bash",),
        body=json.dumps(document).encode(),
        reply="text",
        size=len(json.dumps(document)),
        peer=exchange.peer,
        headers=exchange.headers,
    )


def test_nothing_is_truncated(backend: StubBackend, ask: Callable[..., Any]) -> None:
    """A body of several MiB is recorded whole."""
    text = "x" * 3 * 2**20
    ask("POST", "/v1/responses", {"input": text})
    assert backend.exchanges()[0].user_texts == (text,)


def test_on_exchange(backend: StubBackend, ask: Callable[..., Any]) -> None:
    """The callback gets an exchange after it is recorded and before the response is sent."""
    observed: list[tuple[bool, bool]] = []
    answered = threading.Event()
    backend.on_exchange(lambda exchange: observed.append((exchange in backend.exchanges(), answered.is_set())))
    ask("GET", "/v1/models")
    answered.set()
    assert observed == [(True, False)]


def test_order(backend: StubBackend, ask: Callable[..., Any]) -> None:
    """Exchanges are listed in order of arrival."""
    paths = [f"/v1/models/{number}" for number in range(5)]
    for path in paths:
        ask("GET", path)
    assert [exchange.path for exchange in backend.exchanges()] == paths


def test_readable_afterwards() -> None:
    """The journal can be read after the backend has closed."""
    with StubBackend() as backend:
        pass
    assert (backend.exchanges(), backend.egress()) == ((), ())
