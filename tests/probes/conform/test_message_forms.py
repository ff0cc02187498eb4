"""The messages of each protocol, as clients and engines write them."""

from typing import Any

import pytest

from tests.tables import each
from turngate import load_contract
from turngate_probes.conform.message_forms import Slots, forms, messages, read, strings
from turngate_probes.releases.pins import pinned_version

TEXT = [{"type": "text", "text": "one"}, {"type": "image"}, {"type": "text", "text": "two"}]


@pytest.mark.parametrize(
    "engine, transport, message, found",
    [
        ("gemini", "acp", {"method": "session/prompt", "params": {"sessionId": "s", "prompt": TEXT}}, ("s", True)),
        ("gemini", "acp", {"method": "session/set_mode", "params": {"sessionId": "s", "prompt": TEXT}}, None),
        ("codex", "app_server", {"method": "turn/start", "params": {"threadId": "s", "input": TEXT}}, ("s", True)),
        ("claude", "stream_json", {"type": "user", "message": {"role": "user", "content": TEXT}}, (None, True)),
        ("claude", "stream_json", {"type": "control_request", "message": {"content": TEXT}}, None),
        ("pi", "json_commands", {"type": "prompt", "message": "one\ntwo"}, (None, True)),
        ("opencode", "service", {"method": "POST /session/s/message", "params": {"parts": TEXT}}, ("s", True)),
        ("opencode", "service", {"method": "POST /session/s/prompt_async", "params": {"parts": TEXT}}, ("s", True)),
        ("opencode", "service", {"method": "POST /session", "params": {"title": "one"}}, None),
        (
            "copilot",
            "service",
            {"method": "session.send", "params": {"sessionId": "s", "prompt": "one\ntwo"}},
            ("s", True),
        ),
    ],
)
def test_a_prompt_is_found_in_every_protocol(
    engine: str, transport: str, message: dict[str, Any], found: tuple[str | None, bool] | None
) -> None:
    """With its session, if it names one; a title, or a request about the session, is none."""
    prompts = forms(load_contract(engine, pinned_version(engine)), transport).prompts
    slots = next(filter(None, (read(form, message) for form in prompts)), None)
    assert (slots and (slots.handle, "one" in str(slots.text) and "two" in str(slots.text))) == found


@each(
    "engine, transport, session, ended",
    [
        ("claude", "stream_json", {"type": "result", "session_id": "s"}, {"type": "result", "subtype": "success"}),
        ("pi", "json_commands", {"type": "response", "data": {"sessionId": "s"}}, {"type": "agent_settled"}),
    ],
)
def test_a_process_of_one_session_tells_its_id(
    engine: str, transport: str, session: dict[str, Any], ended: dict[str, Any]
) -> None:
    """The contract says where, and what ends a turn."""
    known = forms(load_contract(engine, pinned_version(engine)), transport)
    assert known.told
    assert known.ended
    assert read(known.told, session) == Slots(handle="s")
    assert read(known.ended, ended | {"is_error": False}) == Slots()
    assert read(known.ended, {"type": "x"}) is None


def test_only_a_turn_that_succeeded_has_ended() -> None:
    """With what tells whose end it is: the number of its request, or its thread."""
    acp, server = (
        forms(load_contract(engine, None), name).ended for engine, name in (("gemini", "acp"), ("codex", "app_server"))
    )
    assert acp
    assert server
    assert read(acp, {"id": 3, "result": {"stopReason": "end_turn"}}) == Slots(id=3)
    assert read(acp, {"id": 3, "result": {"stopReason": "cancelled"}}) is None
    ended = {"method": "turn/completed", "params": {"threadId": "s", "turn": {"status": "completed"}}}
    assert read(server, ended) == Slots(handle="s")
    assert read(server, ended | {"params": {"threadId": "s", "turn": {"status": "interrupted"}}}) is None


def test_messages_are_lines_or_follow_headers() -> None:
    """Each has its end; what is no object is left out, and a line separator inside a text ends nothing."""
    lines = '{"a": "x\u2028y"}\r\nnoise\n[1]\n{"b": 2}'.encode()
    assert list(messages(lines)) == [(14, {"a": "x\u2028y"}), (len(lines), {"b": 2})]
    headed = b'Content-Length: 8\r\n\r\n{"a": 1}Content-Length: 8\r\n\r\n{"b": 2}'
    assert list(messages(headed)) == [(29, {"a": 1}), (58, {"b": 2})]
    assert list(messages(b"")) == []


def test_strings_come_in_their_order() -> None:
    """At any depth; keys and numbers are none."""
    assert list(strings({"a": ["x", {"b": "y", "c": 1}], "d": "z"})) == ["x", "y", "z"]
