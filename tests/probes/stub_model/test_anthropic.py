"""The messages API, tested with the vendor's own SDK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from turngate_probes.stub_model import Cut, Refuse, StubBackend, StubRule, Text, ToolCall
from turngate_probes.stub_model.anthropic import WIRE

if TYPE_CHECKING:
    import anthropic
else:
    from tests.probes.stub_model.sdks import anthropic

pytestmark = pytest.mark.long  # the SDKs take seconds to import


_HI: list[anthropic.types.MessageParam] = [{"role": "user", "content": "hi"}]


@pytest.fixture
def client(backend: StubBackend) -> Iterator[anthropic.Anthropic]:
    """The vendor's client, without retries."""
    with anthropic.Anthropic(api_key="x", base_url=backend.url, max_retries=0) as opened:
        yield opened


def test_text(backend: StubBackend, client: anthropic.Anthropic) -> None:
    """A scripted text is the only text block of a complete message."""
    backend.script(StubRule(Text("héllo\nworld")))
    message = client.messages.create(model="m", max_tokens=9, messages=_HI)
    (block,) = message.content
    assert isinstance(block, anthropic.types.TextBlock)
    assert (block.text, message.stop_reason, message.model) == ("héllo\nworld", "end_turn", "m")


@pytest.mark.parametrize("text", ["", "x", "héllo\nworld"])
def test_text_streamed(backend: StubBackend, client: anthropic.Anthropic, text: str) -> None:
    """The SDK assembles the streamed events to the scripted text."""
    backend.script(StubRule(Text(text)))
    with client.messages.stream(model="m", max_tokens=9, messages=_HI) as stream:
        assert stream.get_final_text() == text
        assert stream.get_final_message().stop_reason == "end_turn"


def test_events_in_order(client: anthropic.Anthropic) -> None:
    """A stream has the vendor's events in the vendor's order."""
    stream = client.messages.create(model="m", max_tokens=9, messages=_HI, stream=True)
    assert [event.type for event in stream] == [
        "message_start",
        "content_block_start",
        "content_block_delta",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]


def test_tool_call(backend: StubBackend, client: anthropic.Anthropic) -> None:
    """A scripted tool call is a tool use block with an object as arguments, streamed or not."""
    backend.script(StubRule(ToolCall("look", {"at": 1})))
    whole = client.messages.create(model="m", max_tokens=9, messages=_HI)
    with client.messages.stream(model="m", max_tokens=9, messages=_HI) as stream:
        streamed = stream.get_final_message()
    for message in (whole, streamed):
        (block,) = message.content
        assert isinstance(block, anthropic.types.ToolUseBlock)
        assert (block.name, block.input, message.stop_reason) == ("look", {"at": 1}, "tool_use")


@pytest.mark.parametrize(
    "status, name, kind",
    [
        (401, "authentication_error", "AuthenticationError"),
        (429, "rate_limit_error", "RateLimitError"),
        (500, "api_error", "InternalServerError"),
    ],
)
def test_refusals(
    backend: StubBackend,
    client: anthropic.Anthropic,
    status: int,
    name: str,
    kind: str,
) -> None:
    """A refusal is the SDK's error of that status, with the vendor's type and the scripted message."""
    backend.script(StubRule(Refuse(status, "no, thanks")))
    with pytest.raises(getattr(anthropic, kind), match="no, thanks") as raised:
        client.messages.create(model="m", max_tokens=9, messages=_HI)
    assert isinstance(raised.value.body, dict)
    assert raised.value.body["type"] == "error"
    assert raised.value.body["error"] == {"type": name, "message": "no, thanks"}


def test_cut(backend: StubBackend, client: anthropic.Anthropic) -> None:
    """A cut stream yields a part of the text and then fails."""
    backend.script(StubRule(Cut()))
    kinds = []
    with pytest.raises(Exception, match="incomplete chunked read"):  # noqa: PT012 - the loop is what fails
        for event in client.messages.create(model="m", max_tokens=9, messages=_HI, stream=True):
            kinds.append(event.type)  # noqa: PERF401 - what came before the failure counts
    assert kinds[-1] == "content_block_delta"


def test_count_tokens(backend: StubBackend, client: anthropic.Anthropic) -> None:
    """Counting tokens works with any script, and is recorded separately from turns."""
    backend.script(StubRule(Refuse(500)))
    assert client.messages.count_tokens(model="m", messages=_HI).input_tokens > 0
    assert [exchange.protocol for exchange in backend.exchanges()] == ["anthropic.count"]


def test_what_is_read() -> None:
    """User texts, without tool results, and names of tools are read from a request."""
    prompted = WIRE.read(
        {
            "system": "rules",
            "messages": [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": [{"type": "text", "text": "b"}]},
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "content": "c"}, {"type": "text", "text": "d"}],
                },
            ],
            "tools": [{"name": "Bash", "input_schema": {}}],
        }
    )
    assert prompted.user_texts == ("a", "d")
    assert prompted.tools == ("Bash",)
    assert prompted.after_tool_result


def test_tool_result_answered() -> None:
    """A tool result is not fresh any more after the model's next message."""
    result = {"role": "user", "content": [{"type": "tool_result", "content": "c"}]}
    later = [{"role": "assistant", "content": "b"}, {"role": "user", "content": "a"}]
    assert not WIRE.read({"messages": [result, *later]}).after_tool_result
