"""What every transport does, whatever protocol it speaks."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from turngate.contract.launch import PermissionMode
from turngate.contract.structs import EngineContract
from turngate.model import Mode
from turngate_reference.server.sticky.events import StickyRequest
from turngate_reference.server.sticky.pipes import ProcessPipes

Message: TypeAlias = dict[str, Any]


class TransportError(Exception):
    """The engine did not do what its contract says; the text says what."""


@dataclass(frozen=True, slots=True)
class Permission:
    """A request for permission: the engine's one-time choices by name, and which of them grants.

    `answers` maps each choice to what the transport answers; without a choice the action is refused.
    """

    prompt: str
    answers: Mapping[str, Message]
    grants: tuple[str, ...]
    context: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a turn ended: the agent's last text (None: none), and what the engine says went wrong."""

    final_text: str | None
    failure: str | None


@dataclass(frozen=True, slots=True)
class TransportContext:
    """What a transport is given: the pipes, what was asked for, who decides permissions, who hears the agent."""

    pipes: ProcessPipes
    request: StickyRequest
    ask: Callable[[Permission], Awaitable[Message | None]]
    say: Callable[[str], None]


class Transport(ABC):
    """Speaks one protocol; all coroutines run on the loop of the pipes and end with it.

    They raise TransportError if the engine leaves its contract, and never return once the process is lost.
    """

    def __init__(self, context: TransportContext) -> None:
        self.session_id: str | None = None
        self.pipes, self.request, self.say = context.pipes, context.request, context.say
        self.sticky = context.request.contract.sticky
        self.permission_mode = permission_mode_of(context.request.contract, context.request.mode)
        # where it is asked for of the session
        self.model = context.request.model if self.sticky.model == "session" else None
        self._ask = context.ask

    @abstractmethod
    async def open(self) -> None:
        """Open a session; in mode interactive, switch asking on and see that it is."""

    @abstractmethod
    async def turn(self, text: str) -> TurnEnd:
        """Run one turn."""

    @abstractmethod
    async def close(self) -> None:
        """Stop listening."""

    def left_for(self, session_id: object) -> str:
        """Return what is wrong with a turn that went on in another session, which lacks what was said before."""
        return f"it left session {self.session_id} for {session_id}"

    async def permission(
        self,
        subject: object,
        answers: Mapping[str, Message],
        grants: Iterable[str],
        action: Message,
        shown: Iterable[str],
    ) -> Message | None:
        """Ask whether an action may be done, and show these members of it; None: it is refused without a choice."""
        context = {key: action[key] for key in shown if action.get(key)}
        return await self._ask(Permission(f"Allow this action? {subject}".strip(), answers, tuple(grants), context))


def confirm(what: str, wanted: str, in_force: object) -> None:
    """Check that what was asked for is in force; None: nothing says so."""
    if in_force is None:
        raise TransportError(f"asked for {what} {wanted}, it can't be confirmed that it is in force")
    if in_force != wanted:
        raise TransportError(f"asked for {what} {wanted}, {in_force} is in force")


def permission_mode_of(contract: EngineContract, mode: Mode) -> PermissionMode:
    """Return what the contract says of a mode; TransportError if nobody knows how asking is switched on."""
    if mode is Mode.AUTO:
        return contract.sticky.auto or PermissionMode()
    if contract.sticky.interactive is None:
        raise TransportError(f"nobody knows how a sticky {contract.engine} is made to ask before it acts")
    return contract.sticky.interactive
