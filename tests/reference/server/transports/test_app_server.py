from types import SimpleNamespace
from typing import cast

from tests.reference.server.transports.stage import Stage, contract
from turngate.contract.launch import PermissionMode
from turngate.model import Reported
from turngate.turn.framing import Problems
from turngate_reference.server.transports.app_server import AppServerTransport
from turngate_reference.server.transports.engine_process import EngineProcess
from turngate_reference.server.transports.events import Lost, ProcessEvent
from turngate_reference.server.transports.transport import Ask


def test_news_of_no_thread_ends_no_turn(stage: Stage) -> None:
    """A notification without a thread or turn, received before the turn has an id, is ignored."""
    received, _ = stage.opened(contract("app_server"), faults="unknown")
    assert stage.turn(received, "go on").failure is None


def test_errors_after_which_a_turn_goes_on_are_reported() -> None:
    """Warnings of the thread or of all, and errors that are tried again, are reported; one that ends a turn is not."""
    request = SimpleNamespace(contract=contract("app_server"), model=None)
    process = SimpleNamespace(request=request, approval=PermissionMode(), problems=Problems())
    received = list[ProcessEvent]()
    transport = AppServerTransport(cast(EngineProcess, process), cast(Ask, None), received.append)
    transport.session_id = "ours"
    turn = {"threadId": "ours", "turnId": "t"}
    for method, params in (
        ("warning", {"message": "no metadata"}),
        ("warning", {"message": "of another thread", "threadId": "other"}),
        ("error", {**turn, "error": {"message": "Reconnecting... 1/5"}, "willRetry": True}),
        ("error", {**turn, "error": {"message": "no more"}, "willRetry": False}),
        ("item/completed", {**turn, "item": {"type": "fileChange", "status": "declined"}}),
        ("warning", {**turn, "message": 1}),
    ):
        transport.on_notification(method, params)
    warned, retried = Reported("error", "no metadata"), Reported("error", "Reconnecting... 1/5")
    assert received == [warned, retried, Reported("denied", "fileChange")]


def test_an_approval_policy_that_does_not_hold_is_a_loss(stage: Stage) -> None:
    """An engine whose thread gets a wider approval policy than requested is ended before the first prompt."""
    received = stage.open(contract("app_server"), faults="wrong-mode")
    assert "approvalPolicy untrusted was requested, but it uses never" in received.until(Lost).detail


def test_each_turn_carries_the_fields_of_the_permission_mode(stage: Stage) -> None:
    """They go into every request that starts a turn, and never replace the prompt or the thread."""
    session, fields = {"approvalPolicy": "untrusted", "sandbox": "read-only"}, {"sandboxPolicy": {"type": "w"}}
    mode = PermissionMode(session=session, turn={**fields, "threadId": "another", "input": []})
    received, _ = stage.opened(contract("app_server", approval=mode))
    for prompt in ("go on", "go further"):
        assert stage.turn(received, prompt).failure is None
    sent = [message for message in stage.messages(">") if message.get("method") == "turn/start"]
    assert [turn["params"]["sandboxPolicy"] for turn in sent] == [fields["sandboxPolicy"]] * 2
    assert [turn["params"]["input"][0]["text"] for turn in sent] == ["go on", "go further"]
    assert all(turn["params"]["threadId"] != "another" for turn in sent)
