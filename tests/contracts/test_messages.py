import json
from typing import Any

from msgspec import Struct

from tests.tables import each
from turngate import messages
from turngate.messages import received, sent

SENT: list[tuple[Struct, dict[str, Any]]] = [
    (messages.LoadSession("/w", session_id="s"), {"cwd": "/w", "mcpServers": [], "sessionId": "s"}),
    (messages.SetOption("s", "mode", "plan"), {"sessionId": "s", "configId": "mode", "value": "plan"}),
    (
        messages.Initialize(),
        {
            "protocolVersion": 1,
            "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False},
        },
    ),
    (
        messages.MessageChunk(messages.TextBlock("hi")),
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}},
    ),
    (
        messages.PermissionAnswer(messages.PermissionOutcome("cancelled")),
        {"outcome": {"outcome": "cancelled"}},
    ),
    (
        messages.UserMessage(messages.UserContent(content="hi")),
        {"type": "user", "message": {"role": "user", "content": "hi"}},
    ),
    (
        messages.ControlResponse(messages.ControlAnswer("1", "error", error="no")),
        {"type": "control_response", "response": {"request_id": "1", "subtype": "error", "error": "no"}},
    ),
    (messages.ToolDecision("deny", message="no"), {"behavior": "deny", "message": "no"}),
]


@each("message, document", SENT)
def test_a_message_travels_under_the_names_of_its_protocol(message: Struct, document: dict[str, Any]) -> None:
    """What one side sends is what the other receives; a field that is not set is left out."""
    assert sent(message) == document
    assert received(type(message), json.loads(json.dumps({**document, "newer": True}))) == message


@each(
    "arrived",
    [
        None,
        [],
        {},
        {"sessionUpdate": "plan", "entries": []},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": ""}},
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": 1}},
    ],
)
def test_anything_else_is_no_message(arrived: object) -> None:
    """Another kind of message, or one with a wrong value, is None."""
    assert received(messages.SessionUpdate, arrived) is None
