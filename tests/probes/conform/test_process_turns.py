"""The turns of a process, from what it and its client wrote."""

import json
from typing import Any

from turngate import load_contract
from turngate_probes.conform.calls import CallEnd, EngineCall, HeardPart, Started
from turngate_probes.conform.message_forms import forms
from turngate_probes.conform.process_turns import turns_of

PROTOCOLS = {
    name: forms(load_contract(engine, None), name)
    for name, engine in (("acp", "gemini"), ("app_server", "codex"), ("stream_json", "claude"), ("service", "opencode"))
}
Message = dict[str, Any]


def process(protocol: str, sent: list[Message], printed: list[Message], **started: Any) -> EngineCall:
    """Return a process that got each message a second after the one before it, the first at 1."""
    stdin, heard = b"", list[HeardPart]()
    for number, message in enumerate(sent, 1):
        stdin += json.dumps(message).encode() + b"\n"
        heard.append(HeardPart(len(stdin), float(number), ()))
    about = Started(1, (), "/work", (), "pipe", 0.0, "process", forms=PROTOCOLS[protocol], **started)
    stdout = "\n".join(map(json.dumps, printed)).encode()
    return EngineCall(1, about, CallEnd(None, 0, 99.0), stdin, False, stdout, "", (), None, heard=tuple(heard))  # noqa: FBT003


def prompt(number: int, text: str, session: str = "s") -> Message:
    """Return a prompt in ACP."""
    params = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
    return {"id": number, "method": "session/prompt", "params": params}


def end(number: int, reason: str = "end_turn") -> Message:
    """Return the end of a turn in ACP."""
    return {"id": number, "result": {"stopReason": reason}}


def codes(call: EngineCall) -> list[int]:
    """Return the exit code of each turn."""
    return [turn.ended.exit_code for turn in turns_of(call) if turn.ended]


def test_a_turn_that_is_a_call_is_one_itself() -> None:
    """Nothing is read from its messages."""
    call = EngineCall(1, Started(1, (), "/", (), "pipe", 0.0, "turn"), None, b"hi", True, b"", "", (), None)  # noqa: FBT003
    assert [*turns_of(call)] == [call]


def test_each_prompt_is_a_turn() -> None:
    """It has its session, its time and its number; messages that are none are left out."""
    opened = {"id": 1, "method": "session/new", "params": {"cwd": "/work"}}
    sent = [opened, prompt(2, "one"), {"method": "session/cancel"}, prompt(4, "two", "t")]
    turns = [*turns_of(process("acp", sent, []))]
    assert [(turn.number, turn.started.at, turn.handle) for turn in turns] == [(1, 2.0, "s"), (1, 4.0, "t")]
    assert ["one" in (turn.text or "") for turn in turns] == [True, False]
    assert [turn.ended.at for turn in turns if turn.ended] == [99.0, 99.0]


def test_a_process_of_one_session_has_the_id_that_it_tells() -> None:
    """Or that its arguments name, or none that another process could have."""
    sent = [{"type": "user", "message": {"content": "hi"}}]
    told = [{"type": "result", "session_id": "s2"}]
    for printed, started, resumed, handle in (
        (told, {"resumed": "s1"}, "s1", "s2"),
        ([], {"resumed": "s1"}, "s1", "s1"),
        ([], {"chosen": "s3"}, None, "s3"),
        ([], {}, None, "process 1"),
    ):
        (turn,) = turns_of(process("stream_json", sent, printed, **started))
        assert (turn.started.resumed, turn.handle) == (resumed, handle)


def test_a_request_for_the_newest_session_is_that_of_the_first_turn() -> None:
    """The others go on in it."""
    sent = [{"type": "user", "message": {"content": text}} for text in ("one", "two")]
    turns = turns_of(process("stream_json", sent, [], newest_session="--continue"))
    assert [turn.started.newest_session for turn in turns] == ["--continue", ""]


def test_a_fork_goes_on_with_the_session_that_it_names() -> None:
    """Its answer has the new id."""
    asked = {"id": 1, "method": "thread/fork", "params": {"threadId": "s"}}
    begun = {"id": 2, "method": "turn/start", "params": {"threadId": "t", "input": [{"type": "text", "text": "hi"}]}}
    (turn,) = turns_of(process("app_server", [asked, begun], [{"id": 1, "result": {"thread": {"id": "t"}}}]))
    assert (turn.started.resumed, turn.handle) == ("s", "t")


def test_a_turn_has_succeeded_if_its_end_says_so() -> None:
    """An end belongs to one prompt; one that is refused or given up has none."""
    asked = [prompt(1, "one"), prompt(2, "two")]
    assert codes(process("acp", asked, [end(2), end(1, "cancelled")])) == [1, 0]
    said = [{"type": "user", "message": {"content": text}} for text in ("one", "two")]
    done = {"type": "result", "subtype": "success", "is_error": False}
    assert codes(process("stream_json", said, [done])) == [0, 1]
    assert codes(process("stream_json", said, [done, done])) == [0, 0]
    stopped = [said[0], {"type": "control_request", "request": {"subtype": "interrupt"}}, said[1]]
    assert codes(process("stream_json", stopped, [done])) == [1, 1]
    begun = [
        {"id": number, "method": "turn/start", "params": {"threadId": thread, "input": [{"text": "hi"}]}}
        for number, thread in enumerate("ssts")
    ]
    completed = [
        {"method": "turn/completed", "params": {"threadId": thread, "turn": {"status": "completed"}}}
        for thread in "sts"
    ]
    assert codes(process("app_server", begun, completed)) == [0, 0, 0, 1]
    assert codes(process("app_server", begun, [{"id": 0, "error": {}}, *completed])) == [1, 0, 0, 1]


def test_a_service_has_succeeded_if_its_client_goes_on() -> None:
    """Its responses aren't recorded. A turn that the client aborts is given up."""
    asked = {"method": "POST /session/s/message", "params": {"parts": [{"text": "hi"}]}}
    assert codes(process("service", [asked, asked], [])) == [0, 1]
    assert codes(process("service", [asked, {"method": "POST /session/s/abort"}, asked], [])) == [1, 1]
    other = {"method": "POST /session/t/message", "params": {"parts": [{"text": "hi"}]}}
    assert codes(process("service", [asked, other], [])) == [1, 1]
