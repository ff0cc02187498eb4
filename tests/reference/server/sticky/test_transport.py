import json
import os
import signal
import time

import pytest

from tests.patience import PATIENCE
from tests.reference.server.sticky.stage import Stage, all_of_them, contract
from turngate.contract.lint import WARM_TRANSPORTS
from turngate.model import Mode
from turngate_reference.server.sticky import session
from turngate_reference.server.sticky.events import Lost, PermissionAsked, TurnEnded
from turngate_reference.server.sticky.transport import Transport

CHOICES = {
    "acp": (("Yes", "No"), ("y", "n")),
    "app_server": (("accept", "decline"), ("accept", "decline")),
    "stream_json": (("allow", "deny"), ("allow", "deny")),
    "json_commands": (("allow", "deny"), ("allow", "deny")),
}
REFUSALS = {"acp": "cancelled", "app_server": "error", "stream_json": "deny", "json_commands": "cancelled"}


@all_of_them
def test_a_request_is_surfaced_and_decided(stage: Stage, transport: str) -> None:
    """Only one-time options are offered, the action is reported, and the engine gets the user's choice."""
    heard, _ = stage.opened(contract(transport))
    options, words = CHOICES[transport]
    for option, word in zip(options, words, strict=True):
        stage.host.prompt("run", "ask")
        asked = heard.until(PermissionAsked)
        assert asked.options == options
        assert "write 0" in asked.prompt
        assert "write 0" in json.dumps(asked.context)
        stage.host.decide("run", asked.request_id, option)
        ended = heard.until(TurnEnded)
        assert ended.final_text == word
        assert ended.declined is (option == options[1])


@all_of_them
def test_concurrent_requests_queue(stage: Stage, transport: str) -> None:
    """The second request is reported after the first is decided; each gets its own answer."""
    heard, _ = stage.opened(contract(transport))
    (yes, no), words = CHOICES[transport]
    stage.host.prompt("run", "ask 2")
    first = heard.until(PermissionAsked)
    stage.host.decide("run", first.request_id, no)
    second = heard.until(PermissionAsked)
    assert "write 1" in second.prompt
    assert sum(isinstance(event, PermissionAsked) for event in heard.past) == 2
    stage.host.decide("run", second.request_id, yes)
    assert heard.until(TurnEnded).final_text == f"{words[1]} {words[0]}"


def test_only_an_option_of_the_open_request_decides(stage: Stage) -> None:
    """Choices that aren't offered, such as "Always", and answers to other requests are ignored."""
    heard, _ = stage.opened(contract("acp"))
    stage.host.prompt("run", "ask")
    asked = heard.until(PermissionAsked)
    for request_id, option in ((asked.request_id, "Always"), (asked.request_id, "yes"), ("permission-9", "Yes")):
        stage.host.decide("run", request_id, option)
    stage.host.decide("run", asked.request_id, "No")
    assert heard.until(TurnEnded).final_text == "n"


def sent(stage: Stage) -> list[str]:
    """List what was written to the engine."""
    lines = (stage.folder / "run/protocol").read_text().splitlines()
    return [line for line in lines if line.split()[1] == ">"]


@all_of_them
def test_a_request_is_void_when_its_turn_ends(stage: Stage, transport: str) -> None:
    """The engine gets a refusal, a later decision is ignored, and the next turn runs."""
    heard, _ = stage.opened(contract(transport))
    stage.host.prompt("run", "abandon so be it")
    asked = heard.until(PermissionAsked)
    ended = heard.until(TurnEnded)
    assert (ended.final_text, ended.declined) == ("so be it", False)
    stage.host.decide("run", asked.request_id, asked.options[0])
    assert stage.turn(heard, "recall").final_text == REFUSALS[transport]


@pytest.mark.parametrize("mode", list(Mode))
@all_of_them
def test_a_request_while_no_turn_runs_is_refused(stage: Stage, transport: str, mode: Mode) -> None:
    """The user isn't asked, and a request in the next turn is handled normally."""
    heard, opened = stage.opened(contract(transport), mode=mode)
    stage.turn(heard, "go on")
    os.kill(opened.pid, signal.SIGUSR1)
    deadline = time.monotonic() + PATIENCE
    while not any(REFUSALS[transport] in line for line in sent(stage)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert stage.turn(heard, "recall").final_text == REFUSALS[transport]
    assert not any(isinstance(event, PermissionAsked) for event in heard.past)
    stage.host.prompt("run", "ask")
    if mode is Mode.INTERACTIVE:
        asked = heard.until(PermissionAsked)
        stage.host.decide("run", asked.request_id, asked.options[0])
    ended = heard.until(TurnEnded)
    assert (ended.final_text, ended.declined) == (CHOICES[transport][1][0], False)


@all_of_them
def test_in_auto_it_is_granted_once(stage: Stage, transport: str) -> None:
    """The user isn't asked, and the engine gets the one-time grant."""
    heard, _ = stage.opened(contract(transport), mode=Mode.AUTO)
    assert stage.turn(heard, "ask 2").final_text == " ".join([CHOICES[transport][1][0]] * 2)
    assert not any(isinstance(event, PermissionAsked) for event in heard.past)


@pytest.mark.parametrize("mode", list(Mode))
@all_of_them
def test_a_request_of_an_unknown_kind_is_answered_with_an_error(stage: Stage, transport: str, mode: Mode) -> None:
    """An unknown request is granted in neither mode."""
    heard, _ = stage.opened(contract(transport), mode=mode)
    answer = json.loads(stage.turn(heard, "unknown").final_text or "")
    if transport == "json_commands":
        assert answer == {"type": "extension_ui_response", "id": "q1", "cancelled": True}
        return
    assert answer["error"] == "files/grant_everything is not supported" or answer["error"]["code"] == -32601
    assert answer.get("subtype", "error") == "error"
    assert not {"result", "response"} & set(answer)


@all_of_them
@pytest.mark.parametrize(
    "do,why", [("nested", "nested more than 100 levels deep"), ("digits", "JSON that exceeds the limits")]
)
def test_a_request_beyond_the_limits_ends_the_process(stage: Stage, transport: str, do: str, why: str) -> None:
    """A permission request that is nested too deeply, or holds a number that is too long, is never reported."""
    heard, _ = stage.opened(contract(transport))
    stage.host.prompt("run", do)
    assert why in heard.until(Lost).detail
    assert not any(isinstance(event, PermissionAsked) for event in heard.past)


def test_contracts_allow_a_kept_process_where_the_server_can_check_it() -> None:
    """`turngate contracts check` accepts `warm` for exactly the transports that have such a request."""
    checked = {name for name, kind in session._TRANSPORTS.items() if kind.check is not Transport.check}
    assert checked == set(WARM_TRANSPORTS)
