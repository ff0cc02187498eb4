"""Requests and their responses, such as lists of models as each vendor's own SDK reads them."""

from __future__ import annotations

from email.message import Message
from typing import TYPE_CHECKING

import pytest

from tests.tables import each
from turngate_probes.stub_model import (
    Cut,
    Exchange,
    Hang,
    Refuse,
    Reply,
    StubBackend,
    StubRule,
    Summary,
    Text,
    ToolCall,
)
from turngate_probes.stub_model.answers import Answer, respond
from turngate_probes.stub_model.protocol import ReplyRules

if TYPE_CHECKING:
    import anthropic
    import openai
    from google import genai
    from google.genai import types
else:
    from tests.probes.stub_model.sdks import anthropic, genai, openai, types


@pytest.fixture(autouse=True)
def _scripted(backend: StubBackend) -> None:
    """Refuse every model request; requests for lists are not affected."""
    backend.script(StubRule(Refuse(500)))


@pytest.mark.long
def test_openai(backend: StubBackend) -> None:
    """The OpenAI SDK lists a model and retrieves one by name."""
    with openai.OpenAI(api_key="x", base_url=f"{backend.url}/v1", max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["stub"]
        assert client.models.retrieve("other").id == "other"
    assert [(exchange.protocol, exchange.model) for exchange in backend.exchanges()] == [
        ("models", None),
        ("models", "other"),
    ]


@pytest.mark.long
@pytest.mark.parametrize("version", ["v1", "v1beta"])
def test_gemini(backend: StubBackend, version: str) -> None:
    """The Gemini SDK lists a model and retrieves one by name."""
    options = types.HttpOptions(base_url=backend.url, api_version=version)
    with genai.Client(api_key="x", http_options=options) as client:
        assert [model.name for model in client.models.list()] == ["models/stub"]
        assert client.models.get(model="other").name == "models/other"


@pytest.mark.long
def test_anthropic(backend: StubBackend) -> None:
    """The Anthropic SDK lists a model and retrieves one by name."""
    with anthropic.Anthropic(api_key="x", base_url=backend.url, max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["stub"]
        assert client.models.retrieve("other").id == "other"


def _respond(reply: Reply, body: bytes = b'{"model": "m", "messages": []}') -> tuple[Exchange, Answer | None]:
    return respond(Exchange(1.0, "POST", "/v1/messages", body=body), Message(), ReplyRules([StubRule(reply)]))


@pytest.mark.parametrize(
    "reply, label",
    [
        (Text("hi"), "text"),
        (Summary("hi"), "summary"),
        (ToolCall("look", {}), "tool_call look"),
        (Refuse(429), "refuse 429"),
        (Cut(), "cut"),
    ],
)
def test_replies(reply: Reply, label: str) -> None:
    """A reply is recorded with its name, model and protocol, and sets the status of the response."""
    request, answer = _respond(reply)
    assert (request.reply, request.model, request.protocol) == (label, "m", "anthropic")
    assert answer
    assert (answer.status, answer.cut) == (429 if label == "refuse 429" else 200, label == "cut")


def test_a_refusal_can_leave_out_what_is_asked_beside_the_conversation() -> None:
    """A request for JSON that fits a schema is refused too, unless only the conversation is to be refused."""
    body = b'{"generationConfig": {"responseSchema": {"type": "object"}}}'
    request = Exchange(1.0, "POST", "/v1beta/models/m:generateContent", body=body)
    for alone, reply in ((False, "refuse 429"), (True, "json")):
        assert respond(request, Message(), ReplyRules([StubRule(Refuse(429, alone=alone))]))[0].reply == reply
        assert _respond(Refuse(429, alone=alone))[0].reply == "refuse 429"


@each(
    "path, stream",
    [
        (path, stream)
        for path in ("/v1/responses", "/v1/messages", "/v1/chat/completions", "/v1beta/models/m:generateContent")
        for stream in (False, True)
    ],
)
def test_the_model_counts_as_many_tokens_as_it_is_told(path: str, stream: bool) -> None:  # noqa: FBT001
    """Each vendor's answer, streamed or not, reports the tokens of the request and of the answer."""
    path = path.replace(":generate", ":streamGenerate") if stream else path
    body = b'{"stream": true, "stream_options": {"include_usage": true}}' if stream else b"{}"
    for reply in (Text("hi", 990_000), ToolCall("look", {}, 990_000)):
        _, answer = respond(Exchange(1.0, "POST", path, body=body), Message(), ReplyRules([StubRule(reply)]))
        assert answer
        assert "990000" in str(answer.body)


def test_silence() -> None:
    """A reply that hangs is recorded without a response."""
    request, answer = _respond(Hang())
    assert (request.reply, answer) == ("hang", None)


def test_stream() -> None:
    """A streamed request gets events instead of a document."""
    _, answer = _respond(Text("hi"), b'{"stream": true}')
    assert answer
    assert isinstance(answer.body, list)
    assert answer.body[0].startswith(b"event: message_start\n")


def test_a_body_that_can_not_be_read() -> None:
    """A body that is no JSON object is rejected in the vendor's format, before any rule applies."""
    for body, problem in ((b"{", "not JSON"), (b"[]", "not a JSON object")):
        request, answer = _respond(Hang(), body)
        assert answer
        assert isinstance(answer.body, dict)
        assert (request.reply, answer.status, answer.body["type"]) == ("refuse 400", 400, "error")
        assert problem in answer.body["error"]["message"]
