"""The Gemini API, tested with the vendor's own SDK."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.tables import each
from turngate_probes.stub_model import Cut, Refuse, StubBackend, StubRule, Text, ToolCall
from turngate_probes.stub_model.gemini import WIRE

if TYPE_CHECKING:
    from google import genai
    from google.genai import errors, types
else:
    from tests.probes.stub_model.sdks import errors, genai, types

pytestmark = pytest.mark.long  # the SDKs take seconds to import


@pytest.fixture(params=["v1", "v1beta"])
def client(backend: StubBackend, request: pytest.FixtureRequest) -> Iterator[genai.Client]:
    """Return the vendor's client for one version of the API."""
    options = types.HttpOptions(base_url=backend.url, api_version=request.param)
    with genai.Client(api_key="x", http_options=options) as opened:
        yield opened


def test_text(backend: StubBackend, client: genai.Client) -> None:
    """A scripted text is the text of a finished candidate."""
    backend.script(StubRule(Text("héllo\nworld")))
    answer = client.models.generate_content(model="gemini-x", contents="hi")
    (candidate,) = answer.candidates or []
    assert (answer.text, answer.model_version) == ("héllo\nworld", "gemini-x")
    assert candidate.finish_reason == types.FinishReason.STOP


@each("text", ["", "x", "héllo\nworld"])
def test_text_streamed(backend: StubBackend, client: genai.Client, text: str) -> None:
    """The chunks together are the scripted text, and the last one has the finish reason."""
    backend.script(StubRule(Text(text)))
    chunks = list(client.models.generate_content_stream(model="m", contents="hi"))
    assert "".join(chunk.text or "" for chunk in chunks) == text
    reasons = [chunk.candidates[0].finish_reason for chunk in chunks if chunk.candidates]
    assert reasons[-1] == types.FinishReason.STOP
    assert set(reasons[:-1]) == {None}


def test_tool_call(backend: StubBackend, client: genai.Client) -> None:
    """A scripted tool call is a function call, streamed or not."""
    backend.script(StubRule(ToolCall("look", {"at": 1})))
    whole = client.models.generate_content(model="m", contents="hi")
    stream = client.models.generate_content_stream(model="m", contents="hi")
    calls = [call for answer in (whole, *stream) for call in answer.function_calls or ()]
    assert [(call.name, call.args) for call in calls] == [("look", {"at": 1})] * 2


def test_json(backend: StubBackend, client: genai.Client) -> None:
    """An answer for which the client gives a schema fits it, and uses up no scripted reply."""
    backend.script(StubRule(ToolCall("look", {}), times=1))
    schema = types.Schema(
        type=types.Type.OBJECT,
        properties={
            "choice": types.Schema(type=types.Type.STRING, enum=["flash", "pro"]),
            "score": types.Schema(type=types.Type.INTEGER, minimum=1, maximum=9),
        },
        required=["choice", "score"],
    )
    for given in ({"response_schema": schema}, {"response_json_schema": schema.json_schema.model_dump(mode="json")}):
        config = types.GenerateContentConfig(response_mime_type="application/json", **given)
        answer = client.models.generate_content(model="m", contents="hi", config=config)
        assert json.loads(answer.text or "") == {"choice": "flash", "score": 1}
    calls = client.models.generate_content(model="m", contents="hi").function_calls or ()
    assert [call.name for call in calls] == ["look"]


@each(
    "status, name, kind",
    [
        (401, "UNAUTHENTICATED", "ClientError"),
        (429, "RESOURCE_EXHAUSTED", "ClientError"),
        (500, "INTERNAL", "ServerError"),
    ],
)
def test_refusals(backend: StubBackend, client: genai.Client, status: int, name: str, kind: str) -> None:
    """A refusal is the SDK's error with the code, the status name and the scripted message."""
    backend.script(StubRule(Refuse(status, "no, thanks")))
    with pytest.raises(getattr(errors, kind)) as raised:
        client.models.generate_content(model="m", contents="hi")
    assert (raised.value.code, raised.value.status, raised.value.message) == (status, name, "no, thanks")


def test_cut(backend: StubBackend, client: genai.Client) -> None:
    """A cut stream yields a part of the text and then fails."""
    backend.script(StubRule(Cut()))
    observed = []
    with pytest.raises(Exception, match="incomplete chunked read"):  # noqa: PT012 - the loop is what fails
        for chunk in client.models.generate_content_stream(model="m", contents="hi"):
            observed.append(chunk.text)  # noqa: PERF401 - what came before the failure counts
    assert observed
    assert all(observed)


def test_count_tokens(backend: StubBackend, client: genai.Client) -> None:
    """Counting tokens works with any script, and is recorded separately from turns."""
    backend.script(StubRule(Refuse(500)))
    assert (client.models.count_tokens(model="m", contents="hi").total_tokens or 0) > 0
    assert [exchange.protocol for exchange in backend.exchanges()] == ["gemini.count"]


def test_model_in_the_path(backend: StubBackend, client: genai.Client) -> None:
    """The model is read from the path."""
    client.models.generate_content(model="gemini-2.5-pro", contents="hi")
    (exchange,) = backend.exchanges()
    assert (exchange.model, exchange.protocol, exchange.user_texts) == ("gemini-2.5-pro", "gemini", ("hi",))


def test_what_is_read() -> None:
    """User texts, also of contents without a role, and tools are read from a request."""
    prompted = WIRE.read(
        {
            "systemInstruction": {"parts": [{"text": "rules"}]},
            "contents": [
                {"role": "user", "parts": [{"text": "a"}, {"inlineData": {}}, {"text": "b"}]},
                {"role": "model", "parts": [{"text": "c"}]},
                {"parts": [{"text": "d"}]},
            ],
            "tools": [{"functionDeclarations": [{"name": "glob"}, {"name": "grep"}]}, {"googleSearch": {}}],
        }
    )
    assert prompted.user_texts == ("a", "b", "d")
    assert prompted.tools == ("glob", "grep", "googleSearch")
    assert not prompted.after_tool_result


@pytest.mark.parametrize("later, expected", [([], True), (["user"], True), (["model", "user"], False)])
def test_tool_result(later: list[str], *, expected: bool) -> None:
    """A tool result is not fresh any more after the model's next message."""
    result = {"role": "user", "parts": [{"functionResponse": {"name": "glob"}}]}
    contents = [{"role": "model"}, result, *({"role": role, "parts": [{"text": "x"}]} for role in later)]
    assert WIRE.read({"contents": contents}).after_tool_result is expected
