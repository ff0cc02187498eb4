"""Which path is whose."""

from email.message import Message

import pytest

from turngate_probes.stub_model import anthropic, gemini, openai_chat, openai_responses
from turngate_probes.stub_model.routes import Generate, Models, Route, TokenCount, Unknown, Upgrade, find


def _headers(**values: str) -> Message:
    message = Message()
    for name, value in values.items():
        message[name.replace("_", "-")] = value
    return message


def _gemini(stream: bool) -> Generate:  # noqa: FBT001 - reads well where it is used
    return Generate(gemini.WIRE, {"model": "gemini-2.5-pro", "stream": stream})


@pytest.mark.parametrize("prefix", ["", "/v1", "/v1/v1", "/v1beta", "/v1alpha", "//v1/"])
@pytest.mark.parametrize(
    "path, expected",
    [
        ("/responses", Generate(openai_responses.WIRE)),
        ("/responses/", Generate(openai_responses.WIRE)),
        ("/chat/completions?a=b", Generate(openai_chat.WIRE)),
        ("/messages?beta=true", Generate(anthropic.WIRE)),
        ("/messages/count_tokens", TokenCount(anthropic.WIRE, "input_tokens")),
        ("/models/gemini-2.5-pro:generateContent", _gemini(stream=False)),
        ("/models/gemini-2.5-pro:streamGenerateContent?alt=sse", _gemini(stream=True)),
        ("/models/gemini-2.5-pro:countTokens", TokenCount(gemini.WIRE, "totalTokens")),
    ],
)
def test_known(prefix: str, path: str, expected: Route) -> None:
    """A path is known with its version, without it, and with one too many."""
    assert find("POST", prefix + path, _headers()) == expected


@pytest.mark.parametrize(
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
    """Another version, verb, method or prefix is something new."""
    assert find(method, path, _headers()) == Unknown()


def test_websocket() -> None:
    """An upgrade is told from a plain GET."""
    assert find("GET", "/v1/responses", _headers(upgrade="WebSocket")) == Upgrade(openai_responses.WIRE)


@pytest.mark.parametrize(
    "path, headers, expected",
    [
        ("/v1/models?client_version=1", {}, Models(openai_responses.WIRE, None)),
        ("/models/org%2Fm", {}, Models(openai_responses.WIRE, "org/m")),
        ("/v1/models", {"anthropic_version": "2023-06-01"}, Models(anthropic.WIRE, None)),
        ("/v1/models", {"x_goog_api_key": "x"}, Models(gemini.WIRE, None)),
        ("/v1/models?key=x", {}, Models(gemini.WIRE, None)),
        ("/v1beta/models/m", {}, Models(gemini.WIRE, "m")),
    ],
)
def test_models(path: str, headers: dict[str, str], expected: Models) -> None:
    """Who asks for models is told by the version and the headers."""
    assert find("GET", path, _headers(**headers)) == expected
