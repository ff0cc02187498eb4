"""The values that describe a turn."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

ModeName: TypeAlias = Literal["auto", "interactive"]
HandleType: TypeAlias = Literal["session_id", "session_file", "opaque"]
ProbeMethod: TypeAlias = Literal["command", "api", "filesystem"]
ProfileKind: TypeAlias = Literal["resumable", "sticky_process"]
EngineReportKind: TypeAlias = Literal["denied", "error", "answer"]
ReportKind: TypeAlias = EngineReportKind | Literal["session"]
InteractionKind: TypeAlias = Literal["choose_one", "confirm", "fill_fields", "open_text", "risk_ack"]
MAX_PROMPT = 100_000
MAX_NAMES = 100
MAX_NAME = 1000
NOT_BLANK = r"\S"
_Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME, pattern=NOT_BLANK)]
_Names = Annotated[tuple[_Name, ...], Meta(max_length=MAX_NAMES)]


class Mode(StrEnum):
    """Whether a user is in the loop (`interactive`) or the engine decides on its own (`auto`).

    >>> turngate.Mode("interactive") is turngate.Mode.INTERACTIVE
    True
    """

    AUTO = "auto"
    INTERACTIVE = "interactive"


class Outcome(StrEnum):
    """How a turn ended.

    >>> turngate.Outcome("ask_user") is turngate.Outcome.ASK_USER
    True
    """

    FINAL = "final"
    ASK_USER = "ask_user"
    ERROR = "error"


class Ended(StrEnum):
    """What ended a process: its own exit, its deadline, a stop, or the limit for exiting after its turn.

    >>> [ended.value for ended in turngate.Ended]
    ['exit', 'timeout', 'stopped', 'lingered']
    """

    EXIT = "exit"
    TIMEOUT = "timeout"
    STOPPED = "stopped"
    LINGERED = "lingered"


# ended before the turn was over
HUNG = (Ended.TIMEOUT, Ended.STOPPED)


class Failure(StrEnum):
    """Why a turn is an `error`: the code before the colon in `AdapterTurnResult.failure_reason`.

    docs/api.md lists their precedence.

    >>> turngate.Failure("SESSION_RESUME_FAILED: the engine exited with 1".partition(":")[0]).name
    'SESSION_RESUME_FAILED'
    """

    TURN_TIMEOUT = "TURN_TIMEOUT"
    ENGINE_FAILED = "ENGINE_FAILED"
    SESSION_RESUME_FAILED = "SESSION_RESUME_FAILED"
    ENVELOPE_INVALID = "ENVELOPE_INVALID"


class Repair(StrEnum):
    """The repair needed to read the envelope in the agent's answer.

    >>> [repair.value for repair in turngate.Repair]
    ['none', 'fence_stripped', 'embedded_object']
    """

    NONE = "none"
    FENCE_STRIPPED = "fence_stripped"
    EMBEDDED_OBJECT = "embedded_object"


class EngineSessionHandle(Struct, frozen=True, forbid_unknown_fields=True):
    """An engine's own session id; `handle_value` is opaque, `created_at_turn` counts from 1.

    Every engine that has a contract today is of `handle_type` `session_id`. `session_file` is for an engine that
    resumes the path of a file which it printed, `opaque` for one that resumes a token which is neither.

    >>> session_id = "0198c6a1-6d70-7000-8000-000000000001"
    >>> turngate.EngineSessionHandle("codex", "session_id", session_id, created_at_turn=1).engine
    'codex'
    """

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
    """Whether resume works, and how this was determined.

    `probe_method` is `filesystem` if a file decided, such as the session store, else `command`. Nothing reports `api`:
    it is for an engine that has a request by which it says whether it can resume.
    """

    supported: bool
    probe_method: ProbeMethod
    detail: str


class Interaction(Struct, frozen=True, forbid_unknown_fields=True):
    """A question from the agent to the user.

    `options` suggests replies, and `required_fields` names what the reply should contain. Any text is a valid reply.

    >>> turngate.Interaction("choose_one", "Which colour?", options=("red", "blue")).required_fields
    ()
    """

    kind: InteractionKind
    prompt: Annotated[str, Meta(min_length=1, max_length=MAX_PROMPT, pattern=NOT_BLANK)]
    options: _Names = ()
    required_fields: _Names = ()
    context: Mapping[str, Any] = {}


class Reported(Struct, frozen=True, forbid_unknown_fields=True):
    """Something to know beside the agent's answer, as `text`. The engine reports it, but for `session`.

    `denied`: a tool that it did not let the agent use. `error`: an error after which the turn went on. `answer`: a text
    of the agent in a turn whose final record has none. `session`: what the session may lack, by the contract,
    because this turn failed or its engine was killed.

    >>> turngate.Reported("denied", "write_file").text
    'write_file'
    """

    kind: ReportKind
    text: str


class AdapterTurnResult(Struct, frozen=True):
    """The result of a turn.

    `final_data` is set if the outcome is `final`, `interaction` if it is `ask_user`, and `failure_reason`, as
    `CODE: detail` with a code of `Failure`, if it is `error`. `stderr` is the end of that stream, at most 64 KiB.

    >>> turngate.AdapterTurnResult(turngate.Outcome.FINAL, {"colour": "blue"}).final_data
    {'colour': 'blue'}
    """

    outcome: Outcome
    final_data: Any = None
    interaction: Interaction | None = None
    stderr: str = ""
    repair_level: Repair = Repair.NONE
    failure_reason: str | None = None
