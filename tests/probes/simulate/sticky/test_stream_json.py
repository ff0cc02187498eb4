import json
from pathlib import Path
from typing import Any

from tests.probes.simulate.played import at_known_release
from tests.probes.simulate.sticky.client import RawClient, calls
from turngate_probes.simulate.backend import Failed
from turngate_probes.simulate.sticky.message_queue import Message


def _control(subtype: str, **fields: str) -> bytes:
    request = {"subtype": subtype, **fields}
    return json.dumps({"type": "control_request", "request_id": subtype, "request": request}).encode()


class _Rewriter(RawClient):
    """Permits each call with other arguments."""

    def _decide(self, asked: Message) -> Message:
        answer = super()._decide(asked)
        answer["response"]["response"]["updatedInput"] = {"file_path": str(self.work / "other.txt"), "content": "x"}
        return answer


def _answers(client: RawClient) -> dict[str, Any]:
    """Return the response to each control request, by its id."""
    answers = [message["response"] for message in client.said if message["type"] == "control_response"]
    return {answer["request_id"]: answer for answer in answers}


def test_control_requests_are_answered(tmp_path: Path) -> None:
    """Setting a mode is confirmed; an unknown request gets an error."""
    lines = (_control("initialize"), _control("set_permission_mode", mode="plan"), _control("fly"))
    client = RawClient(at_known_release("claude"), tmp_path, prompts=(), lines=lines)
    assert client.run() == 0
    answers = _answers(client)
    assert answers["initialize"]["subtype"] == "success"
    assert answers["set_permission_mode"]["response"] == {"mode": "plan"}
    assert (answers["fly"]["subtype"], answers["fly"]["error"]) == (
        "error",
        "Unsupported control request subtype: fly",
    )


def test_a_turn_begins_with_its_session_and_ends_with_its_result(tmp_path: Path) -> None:
    """A turn begins with init, ends with a result, and has the tool call between, all with the session's id."""
    claude = at_known_release("claude")
    client = RawClient(claude, tmp_path, (calls(claude),), ("first",))
    assert client.run() == 0
    kinds = [kind for kind in client.kinds() if not kind.startswith("control_")]
    assert kinds == ["system", "assistant", "user", "assistant", "result"]
    assert len(client.ids()) == 1


def test_a_client_may_permit_other_arguments(tmp_path: Path) -> None:
    """They take the place of the model's."""
    claude = at_known_release("claude")
    client = _Rewriter(claude, tmp_path, (calls(claude),), ("first",))
    assert client.run() == 0
    assert (client.work / "other.txt").read_text() == "x"
    assert not client.touched


def test_a_failed_turn_ends_with_the_error_of_a_headless_one(tmp_path: Path) -> None:
    """The result of a failed turn has the same error as a headless one, and no answer."""
    client = RawClient(at_known_release("claude"), tmp_path, (Failed("401", "key refused", 401),), ("first",))
    assert client.run() == 0
    assert "key refused" in json.dumps(client.said[-1])
    assert client.said[-1]["is_error"]
