"""Which path belongs to which protocol."""

from email.message import Message
from typing import Literal

import pytest

from tests.tables import each
from turngate_probes.stub_model import anthropic, gemini, openai_chat, openai_responses
from turngate_probes.stub_model.answers import UNKNOWN, Route, find


def _headers(**values: str) -> Message:
    message = Message()
    for name, value in values.items():
        message[name.replace("_", "-")] = value
    return message


def _gemini(stream: bool) -> Route:  # noqa: FBT001 - reads well where it is used
    return Route("generate", gemini.WIRE, {"model": "gemini-2.5-pro", "stream": stream})


@each("prefix", ["", "/v1", "/v1/v1", "/v1beta", "/v1alpha", "//v1/", "/api/openrouter"])
@each(
    "path, expected",
    [
        ("/responses", Route("generate", openai_responses.WIRE)),
        ("/responses/", Route("generate", openai_responses.WIRE)),
        ("/chat/completions?a=b", Route("generate", openai_chat.WIRE)),
        ("/messages?beta=true", Route("generate", anthropic.WIRE)),
        ("/messages/count_tokens", Route("count", anthropic.WIRE, {"input_tokens": 10})),
        ("/models/gemini-2.5-pro:generateContent", _gemini(stream=False)),
        ("/models/gemini-2.5-pro:streamGenerateContent?alt=sse", _gemini(stream=True)),
        ("/models/gemini-2.5-pro:countTokens", Route("count", gemini.WIRE, {"totalTokens": 10})),
    ],
)
def test_known(prefix: str, path: str, expected: Route) -> None:
    """A path is recognized with its version or that of a gateway, without it, and with a doubled one."""
    assert find("POST", prefix + path, _headers()) == expected


@each(
    "method, path",
    [
        ("GET", "/"),
        ("HEAD", "/v1/models"),
        ("GET", "/v1"),
        ("GET", "/v1/responses"),
        ("DELETE", "/v1/responses"),
        ("POST", "/v2/responses"),
        ("POST", "/v1/responses/compact"),
        ("POST", "/v1/embeddings"),
        ("POST", "/v1/models"),
        ("POST", "/v1beta/models/m:embedContent"),
        ("POST", "/v1internal:streamGenerateContent"),
        ("POST", "/api/v1/messages"),
        ("POST", ""),
    ],
)
def test_unknown(method: str, path: str) -> None:
    """Another version, verb, method or prefix is unknown."""
    assert find(method, path, _headers()) == UNKNOWN


@pytest.mark.parametrize(
    "asks, protocol", [("generate", "gemini"), ("upgrade", "gemini"), ("count", "gemini.count"), ("models", "models")]
)
def test_protocol(asks: Literal["generate", "upgrade", "count", "models"], protocol: str) -> None:
    """The journal names the protocol of a request, and none for an unknown path."""
    assert Route(asks, gemini.WIRE).protocol == protocol
    assert UNKNOWN.protocol is None


def test_websocket() -> None:
    """A WebSocket upgrade differs from a plain GET."""
    assert find("GET", "/v1/responses", _headers(upgrade="WebSocket")) == Route("upgrade", openai_responses.WIRE)


@each(
    "path, headers, expected",
    [
        ("/v1/models?client_version=1", {}, Route("models", openai_responses.WIRE)),
        ("/models/org%2Fm", {}, Route("models", openai_responses.WIRE, model="org/m")),
        ("/v1/models", {"anthropic_version": "2023-06-01"}, Route("models", anthropic.WIRE)),
        ("/v1/models", {"x_goog_api_key": "x"}, Route("models", gemini.WIRE)),
        ("/v1/models?key=x", {}, Route("models", gemini.WIRE)),
        ("/v1beta/models/m", {}, Route("models", gemini.WIRE, model="m")),
    ],
)
def test_models(path: str, headers: dict[str, str], expected: Route) -> None:
    """Version and headers tell which vendor's client asks for models."""
    assert find("GET", path, _headers(**headers)) == expected
