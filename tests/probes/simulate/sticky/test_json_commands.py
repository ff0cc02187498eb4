from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.probes.simulate.played import at_known_release
from tests.probes.simulate.sticky.client import RawClient, calls
from turngate.contract.launch import PermissionMode
from turngate_probes.simulate import printing
from turngate_probes.simulate.backend import Failed

PI = at_known_release("pi")


def _kinds(client: RawClient) -> list[str]:
    return [kind for kind in client.kinds() if kind not in ("response", "message_start", "message_end")]


def test_a_turn_prints_the_events_of_a_headless_one(tmp_path: Path) -> None:
    """The prompt is accepted, and events follow; the record with the session id belongs to a headless start."""
    client = RawClient(PI, tmp_path, ("blue",), ("Which colour?",))
    assert client.run() == 0
    assert client.said[0]["type"] == "response"
    assert _kinds(client) == ["agent_start", "turn_start", "message_update", "turn_end", "agent_end", "agent_settled"]
    assert client.requests == [["Which colour?"]]


def test_commands_are_answered_under_their_ids(tmp_path: Path) -> None:
    """The session command gets the session id, and an unknown command a refusal."""
    lines = (b'{"id": "a", "type": "get_state"}', b'{"id": "b", "type": "fly"}', b'{"id": "c", "type": "abort"}')
    client = RawClient(PI, tmp_path, prompts=(), lines=lines)
    assert client.run() == 0
    answers: dict[str, Any] = {message["id"]: message for message in client.said}
    assert len(answers["a"]["data"]["sessionId"]) == 36
    assert (answers["b"]["success"], answers["b"]["error"]) == (False, "unknown command")
    assert answers["c"] == {"id": "c", "type": "response", "success": True}


def test_an_action_is_asked_for(tmp_path: Path) -> None:
    """The tool writes its file only if the client confirms."""
    for allow in (True, False):
        client = RawClient(PI, tmp_path / str(allow), (calls(PI),), ("write",), allow=allow)
        assert client.run() == 0
        (asked,) = [message for message in client.said if message["type"] == "extension_ui_request"]
        assert (asked["method"], asked["title"]) == ("confirm", "write")
        assert client.touched is allow


def test_without_the_file_that_makes_it_ask_it_acts(tmp_path: Path) -> None:
    """A process that is started without its extension acts without asking, as in mode auto."""
    client = RawClient(
        PI, tmp_path, (calls(PI),), ("write",), approval=PermissionMode(options=("--no-extensions", "--no-approve"))
    )
    assert client.run() == 0
    assert client.touched
    assert "extension_ui_request" not in client.kinds()


def test_a_failing_backend_is_an_event(tmp_path: Path) -> None:
    """The last event but one has the error, and the turn ends."""
    client = RawClient(PI, tmp_path, (Failed("401", "key refused", 401),), ("first",))
    assert client.run() == 0
    assert client.said[-2]["messages"][-1]["errorMessage"] == "key refused"
    assert client.said[-1]["type"] == "agent_settled"


def test_a_request_that_is_sent_again_is_an_event(tmp_path: Path) -> None:
    """A failure that the engine retries is reported, and the turn succeeds with the next answer."""
    client = RawClient(PI, tmp_path, (Failed("500", "overloaded", 500), "blue"), ("first",))
    assert client.run() == 0
    (retry,) = [message for message in client.said if message["type"] == "auto_retry_start"]
    assert (retry["attempt"], retry["errorMessage"], len(client.requests)) == (1, "overloaded", 2)
    assert client.said[-2]["messages"][-1]["content"][0]["text"] == "blue"


def test_an_answer_that_nobody_waits_for_is_ignored(tmp_path: Path) -> None:
    """A late answer to a question causes no reply."""
    line = b'{"type": "extension_ui_response", "id": "x", "confirmed": true}'
    client = RawClient(PI, tmp_path, prompts=(), lines=(line,))
    assert client.run() == 0
    assert client.said == []


def test_a_process_continues_the_session_of_another(tmp_path: Path) -> None:
    """The arguments name the session; with an unknown id it exits, as a headless turn does."""
    first = RawClient(PI, tmp_path, ("one",), ("first",), lines=(b'{"id": "a", "type": "get_state"}',))
    assert first.run() == 0
    session = first.said[0]["data"]["sessionId"]
    again = RawClient(PI, tmp_path, ("two",), ("again",))
    assert again.run("--session", session) == 0
    assert again.requests == [["first", "one", "again"]]
    lost = RawClient(PI, tmp_path)
    assert lost.run("--session", PI.handle.nonexistent_id) == 1
    assert (lost.said, b"No session found" in lost.stderr) == ([], True)


def test_an_unknown_id_starts_a_session_where_the_engine_refuses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If its simulation refuses no unknown id, the process starts a session under that id."""
    accepting = replace(printing.simulation(PI), nonexistent_id=None)
    monkeypatch.setattr(printing, "simulation", lambda _: accepting)
    unknown = PI.handle.nonexistent_id
    client = RawClient(PI, tmp_path, ("one",), ("first",), lines=(b'{"id": "a", "type": "get_state"}',))
    assert client.run("--session", unknown) == 0
    assert client.said[0]["data"]["sessionId"] == unknown
    assert client.requests == [["first"]]
