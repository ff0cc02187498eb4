"""What every transport does, whatever it speaks."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Protocol, TypeAlias, cast

from turngate.contract.sticky import PermissionMode
from turngate.contract.structs import EngineContract
from turngate.model import Mode
from turngate_reference.server.sticky.events import StickyRequest
from turngate_reference.server.sticky.pipes import ProcessPipes


class TransportError(Exception):
    """The engine did not do what its contract says; the text says what."""


@dataclass(frozen=True, slots=True)
class Permission:
    """A request for permission: the engine's one-time choices by name, and which of them grants.

    `answers` maps each choice to what the transport answers; without a choice the action is refused.
    """

    prompt: str
    answers: Mapping[str, Any]
    grants: tuple[str, ...]
    context: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a turn ended: the agent's last text (None: none), and what the engine says went wrong."""

    final_text: str | None
    failure: str | None


Ask: TypeAlias = Callable[[Permission], Awaitable[Any]]


@dataclass(slots=True)
class TransportContext:
    """What a speaker is given: the wire, what was asked for, who decides permissions, who hears the agent."""

    wire: ProcessPipes
    request: StickyRequest
    ask: Ask
    say: Callable[[str], None]

    @property
    def contract(self) -> EngineContract:
        """The engine's contract."""
        return self.request.contract

    @property
    def stance(self) -> PermissionMode:
        """What the contract says of the mode."""
        return permission_mode_of(self.contract, self.request.mode)

    @property
    def session_model(self) -> str | None:
        """The model, where it is asked for of the session."""
        return self.request.model if self.contract.sticky.model == "session" else None


class Transport(Protocol):
    """Speaks one transport; all coroutines run on the loop of the wire and end with it.

    Both raise SpeechError if the engine leaves its contract, and never return once the wire is lost.
    """

    session_id: str | None

    async def open(self) -> None:
        """Open a session; in mode interactive, switch asking on and see that it is."""

    async def turn(self, text: str) -> TurnEnd:
        """Run one turn."""

    async def close(self) -> None:
        """Stop all that runs beside."""


@dataclass(slots=True)
class Texts:
    """The agent's texts of one turn: pieces of the same message are joined, a new message replaces the last."""

    pieces: list[str] = field(default_factory=list)
    message: object = None

    def add(self, text: str, message: object = None) -> None:
        """Take a piece of a message (None: of the only one there is)."""
        if message != self.message:
            self.pieces, self.message = [], message
        self.pieces.append(text)

    @property
    def final(self) -> str | None:
        """The last message; None if there was no text."""
        return "".join(self.pieces) or None


def permission_mode_of(contract: EngineContract, mode: Mode) -> PermissionMode:
    """Return what the contract says of a mode; SpeechError if nobody knows how asking is switched on."""
    if mode is Mode.AUTO:
        return contract.sticky.auto or PermissionMode()
    stance = contract.sticky.interactive
    if stance is None:
        raise TransportError(f"nobody knows how a kept {contract.engine} is made to ask before it acts")
    return stance


MakeSpeaker: TypeAlias = Callable[[TransportContext], Transport]

_SPEAKERS = {
    "acp": ("agent_client", "AgentClient"),
    "app_server": ("app_server", "AppServer"),
    "stream_json": ("stdio", "StdioStreamJson"),
}


def speaker_for(contract: EngineContract) -> MakeSpeaker:
    """Return what makes the speaker of a contract's transport; slow at first use. SpeechError if it names none."""
    if contract.sticky.transport not in _SPEAKERS:
        raise TransportError(f"{contract.engine} can't be kept over several turns")
    module, name = _SPEAKERS[contract.sticky.transport]
    return cast(MakeSpeaker, getattr(import_module(f"turngate_reference.server.sticky.{module}"), name))
