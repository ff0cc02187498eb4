from tests.reference.server.transports.stage import Stage, contract
from turngate_reference.server.transports.events import Lost


def test_a_mode_that_is_not_confirmed_is_a_loss(stage: Stage) -> None:
    """An engine that confirms another mode than the requested one is ended before the first prompt."""
    received = stage.open(contract("stream_json"), faults="wrong-mode")
    assert "mode default was requested, but it uses another" in received.until(Lost).detail


def test_the_session_is_known_from_the_first_turn(stage: Stage) -> None:
    """The protocol opens no session, so the turn's events provide the session id."""
    received, opened = stage.opened(contract("stream_json"))
    assert opened.session_id is None
    session_id = stage.turn(received, "go on").session_id
    assert session_id == stage.messages("<")[-1]["session_id"]
