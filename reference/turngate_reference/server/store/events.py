"""What happens to a run: its events, a type for each kind, as callers get them and the store keeps them.

docs/api.md describes each kind. The data of an event is JSON in the store, beside the name of its kind.
"""

import json
import sqlite3
from collections.abc import Iterable
from typing import Any, ClassVar, get_args

from msgspec import UNSET, Struct, UnsetType, to_builtins

from turngate.decoding import convert
from turngate_reference.handle_record import now
from turngate_reference.states import Delivery, RunError, State


class StateEvent(Struct, frozen=True):
    """A run has a new state; `error` says why it failed."""

    type: ClassVar[str] = "state"
    state: State
    turn_index: int
    error: RunError | UnsetType = UNSET


class TurnStartEvent(Struct, frozen=True):
    """A turn has begun."""

    type: ClassVar[str] = "turn.started"
    turn_index: int


class DeliveryEvent(Struct, frozen=True):
    """The engine has the prompt of a turn."""

    type: ClassVar[str] = "turn.delivered"
    turn_index: int
    delivery: Delivery


class TurnEndEvent(Struct, frozen=True):
    """A turn has ended; `outcome` is an `Outcome`, or says what ended it."""

    type: ClassVar[str] = "turn.ended"
    turn_index: int
    outcome: str


class TextEvent(Struct, frozen=True):
    """The agent said something, or a piece of it."""

    type: ClassVar[str] = "text"
    turn_index: int
    text: str


class AskedQuestion(Struct, frozen=True):
    """What was asked: a `turngate.Interaction` without its limits, which an engine's own question may exceed."""

    kind: str
    prompt: str
    options: tuple[str, ...]
    required_fields: tuple[str, ...]
    context: dict[str, Any]


class QuestionEvent(AskedQuestion, frozen=True, kw_only=True):
    """The agent asked the user."""

    type: ClassVar[str] = "interaction"
    interaction_id: str


class ReplyEvent(Struct, frozen=True, omit_defaults=True):
    """The user answered; `terminal` says that the answer came from `turngate resume`."""

    type: ClassVar[str] = "reply"
    interaction_id: str
    terminal: bool = False


class ReplyReturnEvent(Struct, frozen=True):
    """No process got a reply, and its question is open again; `code` and `detail` say why."""

    type: ClassVar[str] = "reply.returned"
    interaction_id: str
    code: str
    detail: str


class CancelEvent(Struct, frozen=True):
    """A caller asked to cancel the run."""

    type: ClassVar[str] = "cancel.requested"


EventData = (
    StateEvent
    | TurnStartEvent
    | DeliveryEvent
    | TurnEndEvent
    | TextEvent
    | QuestionEvent
    | ReplyEvent
    | ReplyReturnEvent
    | CancelEvent
)
_TYPES: dict[str, type[EventData]] = {data.type: data for data in get_args(EventData)}


class StoredEvent(Struct, frozen=True):
    """Something that happened to a run; ids grow, with gaps."""

    id: int
    data: EventData
    at: str

    @property
    def type(self) -> str:
        """The name of its kind."""
        return self.data.type

    def as_dict(self) -> dict[str, Any]:
        """Return the data as JSON has it."""
        values: dict[str, Any] = to_builtins(self.data)
        return values


def add_event(connection: sqlite3.Connection, run_id: str, data: EventData) -> None:
    """Add an event."""
    connection.execute(
        "INSERT INTO events (run_id, type, data_json, at) VALUES (?, ?, ?, ?)",
        (run_id, data.type, json.dumps(to_builtins(data)), now()),
    )


def stored(rows: Iterable[sqlite3.Row]) -> list[StoredEvent]:
    """Return the events of some rows."""
    return [
        StoredEvent(row["id"], convert(json.loads(row["data_json"]), _TYPES[row["type"]]), row["at"]) for row in rows
    ]
