"""The values that a turn is made of."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct


class Mode(StrEnum):
    """Whether a user is in the loop (`interactive`) or the engine decides alone (`auto`)."""

    AUTO = "auto"
    INTERACTIVE = "interactive"


class Outcome(StrEnum):
    """How a turn ended."""

    FINAL = "final"
    ASK_USER = "ask_user"
    ERROR = "error"


class Ended(StrEnum):
    """What ended a process: itself, its deadline, a stop, or the limit for exiting once its turn was over."""

    EXIT = "exit"
    TIMEOUT = "timeout"
    STOPPED = "stopped"
    LINGERED = "lingered"


# ended before the turn was over
HUNG = (Ended.TIMEOUT, Ended.STOPPED)


class Failure(StrEnum):
    """Why a turn is an `error`; docs/api.md gives their precedence."""

    TURN_TIMEOUT = "TURN_TIMEOUT"
    ENGINE_FAILED = "ENGINE_FAILED"
    SESSION_RESUME_FAILED = "SESSION_RESUME_FAILED"
    ENVELOPE_INVALID = "ENVELOPE_INVALID"


class Repair(StrEnum):
    """The repair that was needed to read the envelope in the agent's answer."""

    NONE = "none"
    FENCE_STRIPPED = "fence_stripped"
    EMBEDDED_OBJECT = "embedded_object"


HandleType: TypeAlias = Literal["session_id", "session_file", "opaque"]
ProbeMethod: TypeAlias = Literal["command", "api", "filesystem"]
ProfileKind: TypeAlias = Literal["resumable", "sticky_process"]


class EngineSessionHandle(Struct, frozen=True, forbid_unknown_fields=True):
    """An engine's own session id; `handle_value` is opaque, `created_at_turn` counts from 1."""

    engine: str
    handle_type: HandleType
    handle_value: str
    created_at_turn: int


class EngineInteractiveProfile(Struct, frozen=True, forbid_unknown_fields=True):
    """How a run waits for its user."""

    kind: ProfileKind
    reason: str
    session_timeout_sec: int = 1200


class EngineResumeCapability(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether resume works, and how that was found out."""

    supported: bool
    probe_method: ProbeMethod
    detail: str


InteractionKind: TypeAlias = Literal["choose_one", "confirm", "fill_fields", "open_text", "risk_ack"]
MAX_PROMPT = 100_000
MAX_NAMES = 1000
_Names = Annotated[tuple[Annotated[str, Meta(min_length=1)], ...], Meta(max_length=MAX_NAMES)]


class Interaction(Struct, frozen=True, forbid_unknown_fields=True):
    """What the agent asks the user."""

    kind: InteractionKind
    prompt: Annotated[str, Meta(min_length=1, max_length=MAX_PROMPT)]
    options: _Names = ()
    required_fields: _Names = ()
    context: Mapping[str, Any] = {}


class AdapterTurnResult(Struct, frozen=True):
    """The result of a turn; `failure_reason` is `CODE: detail` when the outcome is an error."""

    outcome: Outcome
    final_data: Any = None
    interaction: Interaction | None = None
    stderr: str = ""
    repair_level: Repair = Repair.NONE
    failure_reason: str | None = None
