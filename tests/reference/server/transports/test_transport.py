import asyncio
import json
import os
import signal
import time
from types import SimpleNamespace
from typing import cast

import pytest

from tests.longer import first_quick, only_quick
from tests.patience import PATIENCE
from tests.reference.server.transports.stage import Stage, all_of_them, contract, is_answer
from turngate.contract.launch import OneTime
from turngate.model import Mode, Reported
from turngate.turn.framing import Problems
from turngate_reference.server.transports.engine_process import EngineProcess
from turngate_reference.server.transports.events import AgentText, Lost, PermissionAsked, ProcessEvent, TurnEnded
from turngate_reference.server.transports.transport import Ask, Message, Transport

# what the user sees, and what the engine gets
CHOICES = {
    "acp": (("Allow", "Reject"), ("proceed_once", "cancel")),
    "app_server": (("accept", "decline"), ("accept", "decline")),
    "stream_json": (("allow", "deny"), ("allow", "deny")),
    "json_commands": (("allow", "deny"), ("allow", "deny")),
}
# the names of tools; ACP has kinds and titles
TOOLS = {"app_server": "commandExecution", "stream_json": "Write", "json_commands": "write"}
REFUSALS = {"acp": "cancelled", "app_server": "error", "stream_json": "deny", "json_commands": "cancelled"}


@all_of_them
def test_a_request_is_surfaced_and_decided(stage: Stage, transport: str) -> None:
    """Only one-time options are offered, the engine gets the user's choice, and a denied tool is reported."""
    received, _ = stage.opened(contract(transport))
    options, words = CHOICES[transport]
    for option, result in zip(options, ("done", "the user declined"), strict=True):
        stage.host.prompt("run", "do: act RESULT")
        asked = received.until(PermissionAsked)
        assert asked.options == options
        assert asked.prompt.startswith("Allow this action? ")
        assert "touched.txt" in json.dumps(asked.context)
        stage.host.decide("run", asked.request_id, option)
        ended = received.until(TurnEnded)
        assert ended.final_text == result
        assert ended.declined is (option == options[1])
        tool = TOOLS.get(transport, f"{asked.context.get('kind')} {asked.context.get('title')}")
        denied = {event for event in received.past if isinstance(event, Reported)}
        assert denied == ({Reported("denied", tool)} if ended.declined else set())
    assert stage.answers() == list(words)


@all_of_them
def test_concurrent_requests_queue(stage: Stage, transport: str) -> None:
    """The second request is reported after the first is decided; each gets its own answer."""
    received, _ = stage.opened(contract(transport))
    (yes, no), words = CHOICES[transport]
    stage.host.prompt("run", "do: act RESULT\nfault: asks-twice")
    first = received.until(PermissionAsked)
    stage.host.decide("run", first.request_id, no)
    second = received.until(PermissionAsked)
    assert first.request_id != second.request_id
    assert sum(isinstance(event, PermissionAsked) for event in received.past) == 2
    stage.host.decide("run", second.request_id, yes)
    received.until(TurnEnded)
    assert stage.answers() == [words[1], words[0]]


def test_only_an_option_of_the_open_request_decides(stage: Stage) -> None:
    """Choices that aren't offered, such as one for the session, and answers to other requests are ignored."""
    received, _ = stage.opened(contract("acp"))
    stage.host.prompt("run", "do: act RESULT")
    asked = received.until(PermissionAsked)
    for request_id, option in (
        (asked.request_id, "Allow for this session"),
        (asked.request_id, "allow"),
        ("permission-9", "Allow"),
    ):
        stage.host.decide("run", request_id, option)
    stage.host.decide("run", asked.request_id, "Reject")
    received.until(TurnEnded)
    assert stage.answers() == ["cancel"]


@all_of_them
def test_a_request_is_void_when_its_turn_ends(stage: Stage, transport: str) -> None:
    """The engine gets a refusal, a later decision is ignored, and the next turn runs."""
    received, _ = stage.opened(contract(transport))
    stage.host.prompt("run", "do: act so be it\nfault: abandons-request")
    asked = received.until(PermissionAsked)
    ended = received.until(TurnEnded)
    assert (ended.final_text, ended.declined) == ("so be it", False)
    stage.host.decide("run", asked.request_id, asked.options[0])
    assert stage.turn(received, "do: say hi").final_text == "hi"
    assert stage.answers() == [REFUSALS[transport]]


@pytest.mark.parametrize("mode", only_quick(Mode, Mode.INTERACTIVE))
@all_of_them
def test_a_request_while_no_turn_runs_is_refused(stage: Stage, transport: str, mode: Mode) -> None:
    """The user isn't asked, and a request in the next turn is handled normally."""
    received, opened = stage.opened(contract(transport), mode, "asks-anyway asks-on-signal")
    stage.turn(received, "go on")
    os.kill(opened.pid, signal.SIGUSR1)
    deadline = time.monotonic() + PATIENCE
    while stage.answers() != [REFUSALS[transport]]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not any(isinstance(event, PermissionAsked) for event in received.past)
    stage.host.prompt("run", "do: act RESULT")
    if mode is Mode.INTERACTIVE:
        asked = received.until(PermissionAsked)
        stage.host.decide("run", asked.request_id, asked.options[0])
    ended = received.until(TurnEnded)
    assert (ended.final_text, ended.declined) == ("done", False)


@all_of_them
def test_in_auto_it_is_granted_once(stage: Stage, transport: str) -> None:
    """The user isn't asked, and the engine gets the one-time grant."""
    received, _ = stage.opened(contract(transport), Mode.AUTO, "asks-anyway")
    assert stage.turn(received, "do: act RESULT\nfault: asks-twice").final_text == "done"
    assert stage.answers() == [CHOICES[transport][1][0]] * 2
    assert not any(isinstance(event, PermissionAsked) for event in received.past)


@pytest.mark.parametrize("mode", only_quick(Mode, Mode.AUTO))
@all_of_them
def test_a_request_of_an_unknown_kind_is_answered_with_an_error(stage: Stage, transport: str, mode: Mode) -> None:
    """An unknown request is granted in neither mode."""
    received, _ = stage.opened(contract(transport), mode)
    stage.turn(received, "fault: asks-unknown")
    assert stage.answers() == ["cancelled" if transport == "json_commands" else "error"]
    answer = next(message for message in stage.messages(">") if is_answer(message))
    if transport == "json_commands":
        assert answer == {"type": "extension_ui_response", "id": answer["id"], "cancelled": True}
        return
    answer = answer.get("response", answer)
    assert answer["error"] == "turngate_unknown is not supported" or answer["error"]["code"] == -32601
    assert answer.get("subtype", "error") == "error"
    assert not {"result", "response"} & set(answer)


@all_of_them
@pytest.mark.parametrize(
    "odd,why", first_quick([("nested", "nested more than 100 levels deep"), ("digits", "JSON that exceeds the limits")])
)
def test_a_request_beyond_the_limits_ends_the_process(stage: Stage, transport: str, odd: str, why: str) -> None:
    """A permission request that is nested too deeply, or holds a number that is too long, is never reported."""
    received, _ = stage.opened(contract(transport))
    stage.host.prompt("run", f"do: act\nfault: odd-request={odd}")
    assert why in received.until(Lost).detail
    assert not any(isinstance(event, PermissionAsked) for event in received.past)


@pytest.mark.parametrize("transport", ["stream_json", "app_server"])
def test_a_turn_of_the_engines_own_ends_its_process(stage: Stage, transport: str) -> None:
    """What an engine does by itself between two turns replaces no answer, and is not done in silence."""
    received, _ = stage.opened(contract(transport), faults="goes-on-by-itself")
    assert str(stage.turn(received, "go on").final_text).startswith("turn 1 ")
    assert "began a turn of its own" in received.until(Lost).detail


@all_of_them
def test_in_auto_an_engine_may_go_on(stage: Stage, transport: str) -> None:
    """Nobody is to reply in mode auto, and a turn has the answer that ended it."""
    received, _ = stage.opened(contract(transport), Mode.AUTO, faults="goes-on-by-itself")
    assert str(stage.turn(received, "go on").final_text).startswith("turn 1 ")


class Spoken(Transport):
    """A transport whose turns consist of the lines of a script; a message is a text of the agent."""

    script: tuple[bytes | None, ...] = ()

    async def open(self) -> None:
        """Open nothing."""

    async def turn(self, text: str) -> tuple[str | None, str | None]:
        """Print the lines; None is one that is too long."""
        for line in self.script:
            if line is None:
                self.process.problems.add("a line is too long", loses=True)
            else:
                self.process.on_line(line)
        return text, None

    def on_message(self, message: Message, line: bytes) -> None:
        """Take a text."""
        if "say" in message:
            self.say(message["say"])

    async def on_permission(self, params: Message, once: OneTime) -> Message | None:
        """Decide nothing."""
        return None


SAYS, BAD_BYTE = b'{"say": "hi"}', b'{"say": "\xff"}'


@pytest.mark.parametrize(
    "script, lost",
    [
        ((SAYS,), None),
        ((b"hello", b"[1]", b"null", b"{ code: 1 }", SAYS), None),
        ((BAD_BYTE,), None),
        ((None, SAYS), None),
        ((SAYS, None), "a line is too long"),
        ((SAYS, b'warning: x {"say": "bye"}'), "isn't JSON"),
        ((b'{"say": "by', SAYS), "isn't JSON"),
    ],
)
def test_a_turn_fails_if_a_message_of_it_is_lost(script: tuple[bytes | None, ...], lost: str | None) -> None:
    """No text counts if a later message is too long, or if any message can't be read; the next turn starts anew."""
    contract = SimpleNamespace(sticky=SimpleNamespace(model=None))
    process = SimpleNamespace(problems=Problems(), request=SimpleNamespace(contract=contract), approval=None)
    told = list[ProcessEvent]()
    transport = Spoken(cast(EngineProcess, process), cast(Ask, None), told.append)
    transport.script = script
    _, failure = asyncio.run(transport.run_turn("go on"))
    assert (lost in str(failure)) if lost else failure is None
    assert told == [AgentText("\ufffd" if script == (BAD_BYTE,) else "hi")]
    transport.script = (SAYS,)
    assert asyncio.run(transport.run_turn("go on")) == ("go on", None)
