from tests.reference.server.sticky.stage import Stage, contract
from turngate_reference.server.sticky.events import Lost, Opened


def test_news_of_no_thread_ends_no_turn(stage: Stage) -> None:
    """A notification without a thread or turn, received before the turn has an id, is ignored."""
    heard = stage.open(contract("app_server"), flaws="news")
    heard.until(Opened)
    assert stage.turn(heard, "go on").failure is None


def test_an_approval_policy_that_does_not_hold_is_a_loss(stage: Stage) -> None:
    """An engine whose thread gets a wider approval policy than requested is ended before the first prompt."""
    heard = stage.open(contract("app_server"), flaws="widened")
    assert "approvalPolicy untrusted was requested, but it uses never" in heard.until(Lost).detail
