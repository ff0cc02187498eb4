"""Chat completions, tested with the vendor's own SDK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from turngate_probes.stub_model import Cut, Refuse, StubBackend, StubRule, Text, ToolCall
from turngate_probes.stub_model.openai_chat import WIRE

if TYPE_CHECKING:
    import openai
else:
    from tests.probes.stub_model.sdks import openai

pytestmark = pytest.mark.long  # the SDKs take seconds to import


_HI: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]


@pytest.fixture
def client(backend: StubBackend) -> Iterator[openai.OpenAI]:
    """The vendor's client, without retries."""
    with openai.OpenAI(api_key="x", base_url=f"{backend.url}/v1", max_retries=0) as opened:
        yield opened


def test_text(backend: StubBackend, client: openai.OpenAI) -> None:
    """A scripted text is the content of the only choice."""
    backend.script(StubRule(Text("héllo\nworld")))
    answer = client.chat.completions.create(model="m", messages=_HI)
    (choice,) = answer.choices
    assert (choice.message.content, choice.finish_reason, answer.model) == ("héllo\nworld", "stop", "m")


@pytest.mark.parametrize("text", ["", "x", "héllo\nworld"])
def test_text_streamed(backend: StubBackend, client: openai.OpenAI, text: str) -> None:
    """The chunks together are the scripted text, and the last one has the finish reason."""
    backend.script(StubRule(Text(text)))
    chunks = list(client.chat.completions.create(model="m", messages=_HI, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == text
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == "stop"
    assert all(chunk.usage is None for chunk in chunks)


@pytest.mark.parametrize("asked", [True, False])
def test_usage_streamed_when_asked(client: openai.OpenAI, *, asked: bool) -> None:
    """Only with include_usage does the last chunk hold the usage, without a choice."""
    stream = client.chat.completions.create(
        model="m", messages=_HI, stream=True, stream_options={"include_usage": asked}
    )
    *_, last = stream
    assert (last.choices == []) is asked
    assert (last.usage is not None and last.usage.total_tokens > 0) is asked


def test_tool_call(backend: StubBackend, client: openai.OpenAI) -> None:
    """A scripted tool call is a function call with its arguments as JSON text."""
    backend.script(StubRule(ToolCall("look", {"at": 1})))
    (choice,) = client.chat.completions.create(model="m", messages=_HI).choices
    (call,) = choice.message.tool_calls or []
    assert isinstance(call, openai.types.chat.ChatCompletionMessageFunctionToolCall)
    assert (call.function.name, call.function.arguments) == ("look", '{"at": 1}')
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)


def test_tool_call_streamed(backend: StubBackend, client: openai.OpenAI) -> None:
    """The SDK assembles a streamed tool call."""
    backend.script(StubRule(ToolCall("look", {"at": 1})))
    with client.chat.completions.stream(model="m", messages=_HI) as stream:
        (choice,) = stream.get_final_completion().choices
    (call,) = choice.message.tool_calls or []
    assert (call.function.name, call.function.arguments) == ("look", '{"at": 1}')
    assert choice.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    "status, kind",
    [
        (401, "AuthenticationError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
    ],
)
def test_refusals(backend: StubBackend, client: openai.OpenAI, status: int, kind: str) -> None:
    """A refusal is the SDK's error of that status, streamed or not."""
    backend.script(StubRule(Refuse(status, "no, thanks")))
    for stream in (False, True):
        with pytest.raises(getattr(openai, kind), match="no, thanks"):
            client.chat.completions.create(model="m", messages=_HI, stream=stream)


def test_cut(backend: StubBackend, client: openai.OpenAI) -> None:
    """A cut stream yields a part of the text and then fails, without a finish reason."""
    backend.script(StubRule(Cut()))
    chunks = []
    with pytest.raises(openai.APIConnectionError):  # noqa: PT012 - the loop is what fails
        for chunk in client.chat.completions.create(model="m", messages=_HI, stream=True):
            chunks.append(chunk.choices[0])  # noqa: PERF401 - what came before the failure counts
    assert any(choice.delta.content for choice in chunks)
    assert all(choice.finish_reason is None for choice in chunks)


def test_what_is_read() -> None:
    """User texts, as strings or in parts, and tools of every type are read from a request."""
    prompted = WIRE.read(
        {
            "messages": [
                {"role": "system", "content": "rules"},
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": "b"},
                {"role": "user", "content": [{"type": "text", "text": "c"}, {"type": "image_url"}]},
            ],
            "tools": [
                {"type": "function", "function": {"name": "bash"}},
                {"type": "custom", "custom": {"name": "edit"}},
            ],
        }
    )
    assert prompted.user_texts == ("a", "c")
    assert prompted.tools == ("bash", "edit")
    assert not prompted.after_tool_result


@pytest.mark.parametrize("later, expected", [([], True), (["user"], True), (["assistant", "user"], False)])
def test_tool_result(later: list[str], *, expected: bool) -> None:
    """A tool result is not fresh any more after the model's next message."""
    messages = [{"role": role, "content": "x"} for role in ("user", "assistant", "tool", *later)]
    assert WIRE.read({"messages": messages}).after_tool_result is expected
