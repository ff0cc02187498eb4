import json
from pathlib import Path
from typing import Any

import pytest

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


def _at(root: Path) -> RawClient:
    return RawClient(at_known_release("claude"), root, prompts=("first",))


def _resumed(root: Path, handle: str) -> list[list[Any]]:
    """Return what the model is sent when another process resumes a session; nothing: it is lost."""
    client = _at(root)
    assert client.run("--resume", handle) == (0 if client.requests else 1)
    return client.requests


@pytest.mark.parametrize("option", ["--resume", "--continue"])
def test_options_choose_the_session_of_a_process(option: str, tmp_path: Path) -> None:
    """The given one or the newest goes on; as a fork it is copied, to the given id if there is one."""
    first, forked, named = (_at(tmp_path) for _ in range(3))
    assert first.run() == 0
    (handle,) = first.ids()
    resume = (option, handle) if option == "--resume" else (option,)
    again = _at(tmp_path)
    assert (again.run(*resume), again.ids()) == (0, [handle])
    assert again.requests == [["first", "ok", "first"]]
    assert forked.run(*resume, "--fork-session") == 0
    assert handle not in forked.ids()
    new = "11111111-2222-4333-8444-555555555555"
    assert (named.run("--resume", handle, "--fork-session", "--session-id", new), named.ids()) == (0, [new])
    assert forked.requests == named.requests == [["first", "ok", "first", "ok", "first"]]
    assert _resumed(tmp_path, handle) == forked.requests  # without what the forks said
    assert len(_resumed(tmp_path, new)[0]) == len(forked.requests[0]) + 2


def test_the_newest_session_of_an_empty_home_is_a_new_one(tmp_path: Path) -> None:
    """There is nothing to go on with, and nothing is refused."""
    client = _at(tmp_path)
    assert (client.run("--continue"), client.requests) == (0, [["first"]])


def test_a_session_that_is_not_kept_is_lost(tmp_path: Path) -> None:
    """A new one can't be resumed, and a resumed one holds nothing of the process that doesn't keep it."""
    lost, kept = _at(tmp_path), _at(tmp_path)
    assert lost.run("--no-session-persistence") == 0
    assert _resumed(tmp_path, *lost.ids()) == []
    assert kept.run() == 0
    again = _at(tmp_path)
    assert again.run("--resume", *kept.ids(), "--no-session-persistence") == 0
    assert again.requests == _resumed(tmp_path, *kept.ids()) == [["first", "ok", "first"]]


def test_an_id_of_another_session_is_refused(tmp_path: Path) -> None:
    """A new session can't have it."""
    first, again = _at(tmp_path), _at(tmp_path)
    assert first.run() == 0
    assert again.run("--session-id", *first.ids()) == 1
    assert "already in use" in again.stderr.decode()
