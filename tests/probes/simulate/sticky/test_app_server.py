import json
from pathlib import Path

from msgspec.structs import replace

from tests.probes.simulate.played import SimulatedMachine, at_known_release
from tests.probes.simulate.sticky.client import RawClient, calls
from turngate.turn.records import value_at
from turngate_probes.simulate.backend import Failed


def test_an_opened_thread_tells_what_is_in_force(tmp_path: Path) -> None:
    """The response holds the values that the contract expects in mode interactive."""
    codex = at_known_release("codex")
    client = RawClient(codex, tmp_path, prompts=())
    assert client.run() == 0
    (thread,) = [message["result"] for message in client.said if "thread" in message.get("result", {})]
    assert thread["cwd"] == str(client.work)
    assert codex.sticky.interactive
    for path, value in codex.sticky.interactive.expect.items():
        assert value_at(thread, path) == value


def test_what_is_in_force_may_be_in_a_list(tmp_path: Path) -> None:
    """A value that the contract expects at an index of a list is there, with what the response holds beside it."""
    codex = at_known_release("codex")
    assert codex.sticky.interactive
    approval = replace(codex.sticky.interactive, expect={"thread.rules.1.decision": "ask"})
    client = RawClient(replace(codex, sticky=replace(codex.sticky, interactive=approval)), tmp_path, prompts=())
    assert client.run() == 0
    (answer,) = [message["result"] for message in client.said if "thread" in message.get("result", {})]
    assert (answer["thread"]["rules"], "id" in answer["thread"]) == ([None, {"decision": "ask"}], True)


def test_a_turn_is_told_by_its_items(tmp_path: Path) -> None:
    """A command and a message start and complete within their turn."""
    codex = at_known_release("codex")
    client = RawClient(codex, tmp_path, (calls(codex),), ("first",))
    assert client.run() == 0
    kinds = client.kinds()
    assert kinds[kinds.index("turn/started") :] == [
        "turn/started",
        "item/started",
        "item/completed",
        "item/started",
        "item/commandExecution/requestApproval",
        "item/completed",
        "item/started",
        "item/agentMessage/delta",
        "item/completed",
        "thread/tokenUsage/updated",
        "account/rateLimits/updated",
        "thread/status/changed",
        "turn/completed",
    ]
    told = [one["params"] for one in client.said if one.get("method") == "thread/status/changed"]
    (handle,) = [one["result"]["thread"]["id"] for one in client.said if "thread" in one.get("result", {})]
    assert [(one["threadId"], one["status"]["type"]) for one in told] == [(handle, "active"), (handle, "idle")]


def test_a_thread_is_resumed_in_another_process(tmp_path: Path) -> None:
    """thread/resume continues a saved thread, whose first prompt it shows, and refuses an unknown one."""
    codex = at_known_release("codex")
    first = RawClient(codex, tmp_path, prompts=("first",))
    assert first.run() == 0
    reported = [message["result"]["thread"] for message in first.said if "thread" in message.get("result", {})]
    machine = SimulatedMachine(tmp_path)
    wanted = (reported[0]["id"], codex.handle.nonexistent_id)
    asked = [{"id": i, "method": "thread/resume", "params": {"threadId": handle}} for i, handle in enumerate(wanted)]
    played = machine.call(codex, ["app-server"], "".join(json.dumps(one) + "\n" for one in asked).encode())
    resumed, lost = map(json.loads, played.stdout.splitlines())
    assert (resumed["result"]["thread"]["id"], resumed["result"]["thread"]["preview"]) == (wanted[0], "first")
    assert lost["error"] == {"code": -32600, "message": f"no rollout found for thread id {wanted[1]}"}


def test_an_ephemeral_thread_is_not_kept(tmp_path: Path) -> None:
    """It has turns, and none resumes it; a thread that is resumed stays kept."""
    codex = at_known_release("codex")
    approval = codex.sticky.interactive
    assert approval
    fleeting = replace(approval, session={**approval.session, "ephemeral": True})
    threads = []
    for stance in (fleeting, approval):
        client = RawClient(codex, tmp_path, approval=stance)
        assert client.run() == 0
        assert client.requests[-1][-3:] == ["first", "ok", "again"]
        threads += [message["result"]["thread"] for message in client.said if "thread" in message.get("result", {})]
    assert [thread["ephemeral"] for thread in threads] == [True, False]
    asked = [
        {"id": at, "method": "thread/resume", "params": {"threadId": thread["id"], "ephemeral": True}}
        for at, thread in enumerate(threads)
    ]
    lines = "".join(json.dumps(one) + "\n" for one in asked).encode()
    lost, resumed = map(json.loads, SimulatedMachine(tmp_path).call(codex, ["app-server"], lines).stdout.splitlines())
    assert lost["error"]["message"] == f"no rollout found for thread id {threads[0]['id']}"
    assert not resumed["result"]["thread"]["ephemeral"]


def test_a_process_has_several_threads(tmp_path: Path) -> None:
    """A turn runs in the one that it names, with what was said there."""
    codex = at_known_release("codex")
    first = RawClient(codex, tmp_path, prompts=("first",))
    assert first.run() == 0
    (handle,) = [message["result"]["thread"]["id"] for message in first.said if "thread" in message.get("result", {})]
    turn = {"threadId": handle, "input": [{"type": "text", "text": "again"}]}
    asked = [("thread/resume", {"threadId": handle}), ("thread/start", {}), ("turn/start", turn)]
    lines = [json.dumps({"id": i, "method": name, "params": params}) for i, (name, params) in enumerate(asked)]
    played = SimulatedMachine(tmp_path).call(codex, ["app-server"], "\n".join([*lines, ""]).encode())
    said = [json.loads(line) for line in played.stdout.splitlines()]
    assert [one["params"]["threadId"] for one in said if one.get("method") == "turn/completed"] == [handle]
    assert "error" not in said[-1]


def test_a_failed_turn_completes_with_its_error(tmp_path: Path) -> None:
    """The backend's message is in the error and in the completed turn."""
    client = RawClient(at_known_release("codex"), tmp_path, (Failed("401", "key refused", 401),), ("first",))
    assert client.run() == 0
    assert client.kinds()[-2:] == ["error", "turn/completed"]
    turn = client.said[-1]["params"]["turn"]
    assert (turn["status"], turn["error"]["message"]) == ("failed", "key refused")


def test_a_turn_of_another_thread_is_refused(tmp_path: Path) -> None:
    """A turn of an unknown thread is answered with an error that names the thread."""
    line = json.dumps({"id": 9, "method": "turn/start", "params": {"threadId": "other", "input": []}}).encode()
    client = RawClient(at_known_release("codex"), tmp_path, lines=(line,))
    assert client.run() == 0
    assert client.said[0]["error"] == {"code": -32602, "message": "thread not found: other"}
