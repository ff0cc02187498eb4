"""The client of a simulated sticky process: messages to it, and its answers."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from turngate.contract.simulation import Simulation
from turngate_probes.simulate.backend import EngineContext
from turngate_probes.simulate.faults import Faults
from turngate_probes.simulate.misbehaviour import NOISE, FaultyOutput, pieces
from turngate_probes.simulate.printing import json_text
from turngate_probes.simulate.sticky.message_queue import Message, MessageQueue

Result = TypeVar("Result")


class CancelledTurn(Exception):  # noqa: N818 - what the client did, not an error
    """The client cancelled the turn."""


class Dialect(Protocol):
    """What messages mean in the protocol of an engine, and the faults with which it sends them."""

    faults: Faults
    simulation: Simulation

    def spoiled(self, message: Message) -> Message:
        """Return a message as a fault alters it."""

    def answered(self, message: Message) -> object:
        """Return the id of the request that a message answers; None if it is not an answer."""

    def stops(self, message: Message) -> bool:
        """Whether a message cancels the turn."""


class Client:
    """Sends and receives JSON messages, one per line; the engine tells what they mean."""

    def __init__(self, world: EngineContext, engine: Dialect) -> None:
        self._world, self._engine = world, engine
        self._inbox = MessageQueue(world.stdin, self._complain)
        self._held: list[bytes] | None = None

    def write(self, message: Message) -> None:
        """Send a message, or keep it if messages are held."""
        noise = NOISE if self._engine.faults.prints_noise else b""
        line = noise + json_text(self._engine.simulation, self._engine.spoiled(message)).encode() + b"\n"
        if self._held is None:
            self._put(line)
        else:
            self._held.append(line)

    @property
    def holds(self) -> bool:
        """Whether messages are held."""
        return self._held is not None

    def hold(self) -> None:
        """Keep the messages from now on, to send a part of them."""
        self._held = []

    def send_half(self) -> None:
        """Send the first half of what was held."""
        data = b"".join(self._held or ())
        self._put(data[: len(data) // 2])

    def send_all_but_last(self) -> None:
        """Send what was held, except the last message."""
        self._put(b"".join((self._held or ())[:-1]))

    def _put(self, data: bytes) -> None:
        for piece in pieces(FaultyOutput("stdout", data), self._engine.faults):
            self._world.write(*piece)

    def read(self, *, new: bool = False) -> Message:
        """Return the next message, which must be `new` if none that was postponed will do; SystemExit at the end."""
        message = self._inbox.take(new=new)
        if message is not None:
            return message
        if self._engine.faults.ignores_termination:
            self._world.hang()
        raise SystemExit(0)

    def wait_for(self, numbers: Sequence[object]) -> Message:
        """Return the answer to one of these requests; CancelledTurn if the client cancels the turn first."""
        while True:
            message = self.read(new=True)
            if self._engine.answered(message) in numbers:
                return message
            if self._engine.stops(message):
                raise CancelledTurn
            self._inbox.postpone(message)

    def during(self, function: Callable[[], Result]) -> Result:
        """Run a function that the client can cancel, and return its result; CancelledTurn if it does."""
        result = self._inbox.during(function, self._engine.stops)
        if result is None:
            raise CancelledTurn
        return result

    def _complain(self) -> None:
        self._world.write("stderr", b"a line of the input is not a JSON object\n")
