import io
import json
from threading import Event

import pytest

from turngate_probes.simulate.sticky.message_queue import MessageQueue


def _inbox(*lines: bytes) -> tuple[MessageQueue, list[str]]:
    complaints: list[str] = []
    return MessageQueue(
        io.BytesIO(b"".join(line + b"\n" for line in lines)), lambda: complaints.append("no object")
    ), complaints


def test_messages_come_in_order_until_the_end() -> None:
    """Each object is a message, other lines are complained of, and the end stays the end."""
    inbox, complaints = _inbox(b'{"n": 1}', b"no JSON", b"[2]", b'{"n": 3}')
    assert [inbox.take(), inbox.take(), inbox.take(), inbox.take()] == [{"n": 1}, {"n": 3}, None, None]
    assert len(complaints) == 2


def test_a_postponed_message_comes_first_unless_a_new_one_is_wanted() -> None:
    """A postponed message waits while a new one is read."""
    inbox, _ = _inbox(b'{"n": 1}', b'{"n": 2}')
    inbox.postpone({"n": 0})
    assert [inbox.take(new=True), inbox.take(), inbox.take()] == [{"n": 1}, {"n": 0}, {"n": 2}]


def test_work_returns_its_result_and_messages_meanwhile_are_kept() -> None:
    """A message that arrives during the work and stops nothing is taken afterwards."""
    inbox, _ = _inbox(b'{"n": 1}')
    received = Event()

    def stops(_: object) -> bool:
        received.set()
        return False

    assert inbox.during(lambda: received.wait(30) and "done", stops) == "done"
    assert inbox.take() == {"n": 1}


def test_a_message_stops_the_work() -> None:
    """The work is left alone, and what comes of it later disturbs nothing."""
    inbox, _ = _inbox(b'{"stop": true}', b'{"n": 2}')
    released = Event()
    assert inbox.during(released.wait, lambda message: "stop" in message) is None
    released.set()
    assert inbox.take() == {"n": 2}


def test_an_error_of_the_work_is_raised() -> None:
    """The caller gets the error of the function."""
    inbox, _ = _inbox()
    with pytest.raises(json.JSONDecodeError):
        inbox.during(lambda: json.loads("no JSON"), lambda _: False)
