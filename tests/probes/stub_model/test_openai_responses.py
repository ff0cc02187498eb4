"""The Responses API, tested with the vendor's own SDK."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from turngate_probes.stub_model import Cut, Refuse, StubBackend, StubRule, Text, ToolCall
from turngate_probes.stub_model.openai_responses import WIRE

if TYPE_CHECKING:
    import openai
else:
    from tests.probes.stub_model.sdks import openai

pytestmark = pytest.mark.long  # the SDKs take seconds to import


@pytest.fixture
def client(backend: StubBackend) -> Iterator[openai.OpenAI]:
    """The vendor's client, without retries."""
    with openai.OpenAI(api_key="x", base_url=f"{backend.url}/v1", max_retries=0) as opened:
        yield opened


def test_text(backend: StubBackend, client: openai.OpenAI) -> None:
    """A scripted text is the output text of a completed response."""
    backend.script(StubRule(Text("héllo\nworld")))
    answer = client.responses.create(model="m", input="hi")
    assert (answer.output_text, answer.status, answer.model) == ("héllo\nworld", "completed", "m")


@pytest.mark.parametrize("text", ["", "x", "héllo\nworld"])
def test_text_streamed(backend: StubBackend, client: openai.OpenAI, text: str) -> None:
    """The SDK assembles the streamed events to the scripted text."""
    backend.script(StubRule(Text(text)))
    with client.responses.stream(model="m", input="hi") as stream:
        events = list(stream)
        final = stream.get_final_response()
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert ("".join(deltas), final.output_text) == (text, text)
    assert [event.sequence_number for event in events] == list(range(len(events)))


def test_events_in_order(client: openai.OpenAI) -> None:
    """A stream has the vendor's events in the vendor's order."""
    kinds = [event.type for event in client.responses.create(model="m", input="hi", stream=True)]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]


def test_tool_call(backend: StubBackend, client: openai.OpenAI) -> None:
    """A scripted tool call is a function call with its arguments as JSON text."""
    backend.script(StubRule(ToolCall("look", {"at": 1})))
    (item,) = client.responses.create(model="m", input="hi").output
    assert isinstance(item, openai.types.responses.ResponseFunctionToolCall)
    assert (item.name, item.arguments) == ("look", '{"at": 1}')


def test_tool_call_streamed(backend: StubBackend, client: openai.OpenAI) -> None:
    """A streamed tool call has its arguments in the events and in the completed response."""
    backend.script(StubRule(ToolCall("look", {"at": 1})))
    with client.responses.stream(model="m", input="hi") as stream:
        done = [event for event in stream if event.type == "response.function_call_arguments.done"]
        (item,) = stream.get_final_response().output
    assert [event.arguments for event in done] == ['{"at": 1}']
    assert isinstance(item, openai.types.responses.ResponseFunctionToolCall)
    assert (item.name, item.arguments, item.status) == ("look", '{"at": 1}', "completed")


def test_program_streamed(backend: StubBackend, client: openai.OpenAI) -> None:
    """A call of a tool by a program is a custom tool call with the program as its input."""
    backend.script(StubRule(ToolCall("run", {"cmd": "ls"}, through="exec", program="run()")))
    with client.responses.stream(model="m", input="hi") as stream:
        done = [event for event in stream if event.type == "response.custom_tool_call_input.done"]
        (item,) = stream.get_final_response().output
    assert [event.input for event in done] == ["run()"]
    assert isinstance(item, openai.types.responses.ResponseCustomToolCall)
    assert (item.name, item.input) == ("exec", "run()")
    assert backend.exchanges()[0].reply == "tool_call run"


@pytest.mark.parametrize(
    "status, code, kind",
    [
        (401, "invalid_api_key", "AuthenticationError"),
        (429, "rate_limit_exceeded", "RateLimitError"),
        (500, None, "InternalServerError"),
    ],
)
def test_refusals(backend: StubBackend, client: openai.OpenAI, status: int, code: str, kind: str) -> None:
    """A refusal is the SDK's error of that status, with the vendor's code and the scripted message."""
    backend.script(StubRule(Refuse(status, "no, thanks")))
    with pytest.raises(getattr(openai, kind), match="no, thanks") as raised:
        client.responses.create(model="m", input="hi")
    assert isinstance(raised.value.body, dict)
    assert raised.value.body["message"] == "no, thanks"
    assert (raised.value.code, raised.value.type == "server_error") == (code, status == 500)


def test_cut(backend: StubBackend, client: openai.OpenAI) -> None:
    """A cut stream yields a part of the text and then fails, without a completed event."""
    backend.script(StubRule(Cut()))
    kinds = []
    with pytest.raises(openai.APIConnectionError):  # noqa: PT012 - the loop is what fails
        for event in client.responses.create(model="m", input="hi", stream=True):
            kinds.append(event.type)  # noqa: PERF401 - what came before the failure counts
    assert kinds[-1] == "response.output_text.delta"


def test_tokens_are_told(client: openai.OpenAI) -> None:
    """A response reports its token usage."""
    usage = client.responses.create(model="m", input="hi").usage
    assert usage is not None
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens > 0


def test_what_is_read() -> None:
    """User texts in parts, and tools by name, type or namespace, are read from a request."""
    prompted = WIRE.read(
        {
            "input": [
                {"role": "developer", "content": [{"type": "input_text", "text": "rules"}]},
                {
                    "role": "user",
                    "content": [{"type": "input_text", "text": "a"}, {"type": "input_image"}, {"text": "b"}],
                },
                {"role": "assistant", "content": [{"type": "output_text", "text": "c"}]},
                {"role": "user", "content": "d"},
            ],
            "tools": [
                {"type": "function", "name": "exec"},
                {"type": "web_search"},
                {"type": "namespace", "name": "agents", "tools": [{"name": "spawn"}]},
            ],
        }
    )
    assert prompted.user_texts == ("a", "b", "d")
    assert prompted.tools == ("exec", "web_search", "agents.spawn")
    assert not prompted.after_tool_result


def test_input_as_text() -> None:
    """An input that is a plain string is the user's text."""
    assert WIRE.read({"input": "hi"}).user_texts == ("hi",)


@pytest.mark.parametrize(
    "later, expected",
    [([], True), ([{"role": "user", "content": "note"}], True), ([{"role": "assistant"}], False)],
)
def test_tool_result(later: list[dict[str, str]], *, expected: bool) -> None:
    """A tool result is not fresh any more after the model's next message."""
    items = [{"type": "function_call"}, {"type": "function_call_output", "output": "x"}, *later]
    assert WIRE.read({"input": items}).after_tool_result is expected
