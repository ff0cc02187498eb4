"""Properties that every protocol has."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate_probes.stub_model import anthropic, gemini, openai_chat, openai_responses
from turngate_probes.stub_model.protocol import ModelAnswer, ToolIds, WireProtocol, encode

_WIRES = [openai_responses.WIRE, openai_chat.WIRE, gemini.WIRE, anthropic.WIRE]
_PLACES = ["input", "messages", "contents", "role", "content", "parts", "text", "type"]
_KEYS = st.sampled_from([*_PLACES, "tools", "name", "function", "functionDeclarations", "custom"])
_ROLES = st.sampled_from(["user", "assistant", "model", "tool", "namespace", "function"])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | _ROLES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=15,
)


@pytest.mark.parametrize("wire", _WIRES, ids=lambda wire: wire.name)
@given(document=st.dictionaries(_KEYS, _VALUES, max_size=5))
def test_any_document_is_read(wire: WireProtocol, document: dict[str, Any]) -> None:
    """Reading never fails and yields only texts, whatever the document."""
    prompted = wire.read(document)
    assert all(isinstance(text, str) for text in prompted.user_texts + prompted.tools)


@pytest.mark.parametrize("wire", _WIRES, ids=lambda wire: wire.name)
@given(text=st.text())
def test_any_text_is_streamed_whole(wire: WireProtocol, text: str) -> None:
    """Any model text fits on one line of an event's JSON, so no text can end an event early."""
    for event in wire.events(ModelAnswer("m", text), {}):
        *named, data, empty, end = encode(event).decode().split("\n")
        assert (len(named) <= 1, empty, end) == (True, "", "")
        assert data == "data: [DONE]" or json.loads(data.removeprefix("data: "))


@given(text=st.text())
def test_pieces(text: str) -> None:
    """The pieces of a text add up to it, and there are two if it can be split."""
    pieces = ModelAnswer("m", text).pieces
    assert "".join(pieces) == text
    assert len(pieces) == min(2, max(1, len(text)))


_CUSTOM = {
    "type": "custom",
    "name": "exec",
    "description": "Run JavaScript.\ndeclare const tools: { run(args: {\n  cmd: string;\n}): Promise<unknown>; };",
}
_SPACES = [
    {"type": "namespace", "name": "functions", "tools": [_CUSTOM, {"type": "function", "name": "wait"}]},
    {"type": "namespace", "name": "clock", "tools": [{"type": "function", "name": "sleep"}]},
]


def test_tools_in_the_conversation_are_offered() -> None:
    """Tools in an item of the conversation count, the last such item alone, with those that a program may call."""
    begun = {"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "old"}]}
    asked = {"role": "user", "content": "hello"}
    prompted = openai_responses.WIRE.read({"input": [begun, asked, {**begun, "tools": _SPACES}, asked]})
    assert prompted.tools == ("exec", "run", "wait", "clock.sleep")
    assert prompted.user_texts == ("hello", "hello")


@pytest.mark.parametrize("wire", [openai_responses.WIRE, openai_chat.WIRE], ids=lambda wire: wire.name)
def test_a_program_is_the_input_of_a_custom_call(wire: WireProtocol) -> None:
    """The tool that takes a program gets it as text, whole and streamed, and its output is a result."""
    answer = ModelAnswer("m", tool="exec", program="run()")
    for sent in wire.whole(answer), list(wire.events(answer, {})):
        text = json.dumps(sent)
        assert '"name": "exec"' in text
        assert '"input": "run()"' in text
        assert "arguments" not in text
    output = {"type": "custom_tool_call_output", "role": "tool", "output": "done"}
    assert wire.read({wire.messages: [output]}).after_tool_result


_USED = {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "Bash", "input": {}}]}
_GAVE = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "done"}]}
_CALLED = {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "bash"}}]}
_DONE = {"role": "tool", "tool_call_id": "a", "content": "done"}
_ASKED = {"role": "model", "parts": [{"functionCall": {"name": "a", "args": {}}}]}
_TOLD = {"role": "user", "parts": [{"functionResponse": {"name": "a", "response": {}}}]}
_PROGRAM, _OUTPUT = (
    {"type": f"custom_tool_call{end}", "call_id": "a", "input": "x", "output": "y"} for end in ("", "_output")
)
_SEARCH = {"type": "web_search_call", "id": "a"}


@pytest.mark.parametrize(
    "wire, call, result, document",
    [
        (anthropic.WIRE, _USED, _GAVE, "messages"),
        (openai_chat.WIRE, _CALLED, _DONE, "messages"),
        (gemini.WIRE, _ASKED, _TOLD, "contents"),
        (openai_responses.WIRE, _PROGRAM, _OUTPUT, "input"),
    ],
    ids=lambda value: value.name if isinstance(value, WireProtocol) else "",
)
def test_calls_and_results_are_paired(
    wire: WireProtocol, call: dict[str, Any], result: dict[str, Any], document: str
) -> None:
    """A call without a result after it and a result without a call are named; each of two calls needs a result."""
    for messages, calls, results in (
        ([call, result], (), ()),
        ([call, result, call, result], (), ()),
        ([call], ("a",), ()),
        ([call, call, result], ("a",), ()),
        ([result], (), ("a",)),
        ([call, result, result], (), ("a",)),
        ([result, call], ("a",), ("a",)),
        ([call, {"role": "user", "content": "Go on."}], ("a",), ()),
    ):
        assert wire.read({document: messages}).unpaired == ToolIds(calls, results), messages


def test_a_tool_of_the_vendor_needs_no_result() -> None:
    """A call that the vendor carries out has no id for a result."""
    assert openai_responses.WIRE.read({"input": [_SEARCH]}).unpaired == ToolIds()
