import io
import json
from pathlib import Path
from threading import Event
from typing import cast

import pytest

from tests.probes.simulate.played import HungError, at_known_release, hang
from turngate_probes.simulate.backend import EngineContext
from turngate_probes.simulate.faults import NONE, Faults
from turngate_probes.simulate.printing import simulation
from turngate_probes.simulate.sticky.engine import StickyEngine
from turngate_probes.simulate.sticky.message_queue import Message
from turngate_probes.simulate.sticky.sticky_client import CancelledTurn, Client


class _Engine:
    """A protocol whose answers have an id, and whose cancellation is `stop`."""

    def __init__(self, faults: Faults) -> None:
        self.faults, self.simulation = faults, simulation(at_known_release("codex"))

    def spoiled(self, message: Message) -> Message:
        return message

    def answered(self, message: Message) -> object:
        return message.get("id")

    def stops(self, message: Message) -> bool:
        return "stop" in message


def _client(*messages: Message, faults: Faults = NONE) -> tuple[Client, list[bytes]]:
    sent: list[bytes] = []
    world = EngineContext(
        env={},
        cwd=str(Path.cwd()),
        stdin=io.BytesIO(b"".join(json.dumps(one).encode() + b"\n" for one in messages)),
        write=lambda _, data: sent.append(data),
        hang=hang,
        clock=lambda: 0.0,
        backend=lambda _: "ok",
    )
    return Client(world, cast(StickyEngine, _Engine(faults))), sent


def test_an_answer_is_awaited_and_other_messages_wait() -> None:
    """What comes before the answer is read after it."""
    client, _ = _client({"prompt": "next"}, {"id": 2}, {"id": 7})
    assert client.wait_for([7]) == {"id": 7}
    assert [client.read(), client.read()] == [{"prompt": "next"}, {"id": 2}]


def test_a_cancellation_ends_the_wait() -> None:
    """The client cancels while it is asked, or while the model is."""
    client, _ = _client({"stop": 1}, {"stop": 2})
    with pytest.raises(CancelledTurn):
        client.wait_for([7])
    released = Event()
    with pytest.raises(CancelledTurn):
        client.during(released.wait)
    released.set()


def test_the_end_of_the_input_ends_the_process() -> None:
    """It exits with 0, or stays if it ignores termination."""
    with pytest.raises(SystemExit) as ended:
        _client()[0].read()
    assert ended.value.code == 0
    with pytest.raises(HungError):
        _client(faults=Faults(ignores_termination=True))[0].read()


def test_messages_are_lines_and_may_follow_noise() -> None:
    """A message is one line of JSON; a fault prints another line before it."""
    client, sent = _client()
    client.write({"text": "two\nlines"})
    assert json.loads(sent[0]) == {"text": "two\nlines"}
    noisy, printed = _client(faults=Faults(prints_noise=True))
    noisy.write({})
    assert printed == [b"Loading plugins...\n{}\n"]
