from tests.reference.server.transports.stage import Stage, contract
from turngate.contract.launch import PermissionMode
from turngate_reference.server.transports.events import Lost


def test_news_of_no_thread_ends_no_turn(stage: Stage) -> None:
    """A notification without a thread or turn, received before the turn has an id, is ignored."""
    received, _ = stage.opened(contract("app_server"), faults="unknown")
    assert stage.turn(received, "go on").failure is None


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
