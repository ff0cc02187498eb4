import json
from pathlib import Path
from typing import Any

import pytest

from tests.probes.simulate.played import at_known_release
from tests.probes.simulate.sticky.client import RawClient, calls
from tests.tables import each
from turngate.contract.launch import PermissionMode


def _updates(client: RawClient) -> list[dict[str, Any]]:
    return [message["params"]["update"] for message in client.said if message.get("method") == "session/update"]


def test_a_text_comes_in_pieces_before_the_end_of_its_turn(tmp_path: Path) -> None:
    """The text of a turn comes in two chunks, before the response to the prompt."""
    client = RawClient(at_known_release("gemini"), tmp_path, prompts=("first",))
    assert client.run() == 0
    assert [update["content"]["text"] for update in _updates(client) if "content" in update] == ["o", "k"]
    assert client.said[-1]["result"]["stopReason"] == "end_turn"


def test_a_new_session_is_told_its_commands(tmp_path: Path) -> None:
    """As by Gemini, right after the response that names the session."""
    client = RawClient(at_known_release("gemini"), tmp_path, prompts=("first",))
    assert client.run() == 0
    opened = next(index for index, one in enumerate(client.said) if "sessionId" in one.get("result", {}))
    told = client.said[opened + 1]["params"]
    assert told["sessionId"] == client.said[opened]["result"]["sessionId"]
    assert told["update"]["sessionUpdate"] == "available_commands_update"


@pytest.mark.parametrize("allow, status", [(True, "completed"), (False, "failed")])
def test_a_tool_call_is_told_until_it_is_done(allow: bool, status: str, tmp_path: Path) -> None:  # noqa: FBT001 - a case
    """The client gets the tool call, a permission request with three options, and the result."""
    contract = at_known_release("qwen")
    client = RawClient(contract, tmp_path, (calls(contract),), ("first",), allow=allow)
    assert client.run() == 0
    reported = [update["status"] for update in _updates(client) if update["sessionUpdate"].startswith("tool_call")]
    assert reported == ["pending", status]
    (asked,) = [message for message in client.said if message.get("method") == "session/request_permission"]
    assert len(asked["params"]["options"]) == 3


@each(
    "method, params, reason",
    [
        ("session/set_mode", {"sessionId": "s", "modeId": "no-such"}, "there is no mode no-such"),
        ("session/set_mode", {"sessionId": "s", "modeId": None}, "Invalid params for session/set_mode"),
        ("session/set_mode", {"modeId": "plan"}, "Invalid params for session/set_mode"),
        ("session/set_config_option", {"sessionId": "s", "configId": "x", "value": "y"}, "there is no option x"),
        (
            "session/set_config_option",
            {"sessionId": "s", "configId": "x", "value": 1},
            "Invalid params for session/set",
        ),
    ],
)
def test_a_mode_or_option_that_there_is_none_of_is_refused(
    method: str, params: object, reason: str, tmp_path: Path
) -> None:
    """An unknown mode or option, or a parameter of the wrong type, is answered with an error."""
    client = RawClient(at_known_release("gemini"), tmp_path, lines=(_request(method, params),))
    assert client.run() == 0
    error = client.said[0]["error"]
    assert (error["code"], error["message"].startswith(reason)) == (-32602, True)


def test_a_mode_that_denies_every_action_goes_on_after_it(tmp_path: Path) -> None:
    """OpenCode starts in `build`, offers `plan` beside it, and acts on nothing in that, without asking."""
    contract = at_known_release("opencode")
    client = RawClient(contract, tmp_path, (calls(contract), "done"), ("first",), approval=PermissionMode(mode="plan"))
    assert client.run() == 0
    options = [option for one in client.said for option in one.get("result", {}).get("configOptions", ())]
    modes = [option for option in options if option["id"] == "mode"]
    assert (modes[0]["currentValue"], modes[-1]["currentValue"]) == ("build", "plan")
    assert {"build", "plan"} <= {choice["value"] for choice in modes[0]["options"]}
    told = [update.get("status") for update in _updates(client) if update["sessionUpdate"] == "tool_call_update"]
    assert told[-1] == "failed"
    texts = [update["content"]["text"] for update in _updates(client) if update["sessionUpdate"].endswith("chunk")]
    assert "".join(texts) == "done"
    assert not any(message.get("method") == "session/request_permission" for message in client.said)


@pytest.mark.parametrize("engine", ["opencode", "qwen"])
@pytest.mark.parametrize("allow, status", [(True, "completed"), (False, "failed")])
def test_a_loaded_session_is_told_again(engine: str, allow: bool, status: str, tmp_path: Path) -> None:  # noqa: FBT001 - a case
    """The client of another process gets the prompts, texts and tool calls of the session, in order."""
    contract = at_known_release(engine)
    before = RawClient(contract, tmp_path, ("one", calls(contract)), allow=allow)
    assert before.run() == 0
    handle = next(message["result"]["sessionId"] for message in before.said if "sessionId" in message.get("result", {}))
    after = RawClient(contract, tmp_path, prompts=(), lines=(_request("session/load", {"sessionId": handle}),))
    assert after.run() == 0
    texts = [update["content"]["text"] for update in _updates(after) if update["sessionUpdate"].endswith("chunk")]
    assert list(filter(None, texts)) == ["first", "one", "again", *(["ok"] if allow else [])]
    reported = [update["status"] for update in _updates(after) if update["sessionUpdate"].startswith("tool_call")]
    assert reported[1:] == [status]


def _request(method: str, params: object) -> bytes:
    return json.dumps({"id": 9, "method": method, "params": params}).encode()
