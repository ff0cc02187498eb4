"""What a contract says of simulating its engine."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field


class Line(Struct, frozen=True):
    """Something that a simulated engine prints on one stream: text, or a record with slots.

    It is printed if all of `when` holds: `start`, `resume`, `auto`, `interactive`, what is wrong with the session
    (`dead`, `malformed`, `elsewhere`), or how the model backend failed (an HTTP status, `away`, `cut`).
    """

    stdout: str | Mapping[str, Any] | None = None
    stderr: str | Mapping[str, Any] | None = None
    when: tuple[str, ...] = ()


class Ending(Struct, frozen=True):
    """How a simulated engine ends badly; exit code `status` is the HTTP status modulo 256, or 1 without one."""

    exit_code: int | Literal["status"]
    lines: tuple[Line, ...] = ()


class StickySimulation(Struct, frozen=True):
    """How a simulated process that is kept over several turns differs from others on its transport.

    `starts_in` is the session mode that it starts in (None: that of mode interactive); modes are set by an `option`
    of the session, by a `request` of their own, or by one whose `answer` confirms them, as it then does for the model;
    after a refused action the agent `answers`, or the turn `ends`.
    """

    starts_in: str | None = None
    modes: Literal["option", "request", "answer"] = "request"
    after_refusal: Literal["answers", "ends"] = "answers"


class Simulation(Struct, frozen=True):
    """What a simulated engine prints, and when; all else follows from the other claims.

    `started` comes before the model is asked, `called` with each tool call, `answered` at the end of a good turn;
    `retrying` when a backend fails, `unanswered` when that passes for a success. `ids` are forms of ids, made once
    a turn; `system_prompt` tells the model of the approval in force; `hangs` are failing backends beside the
    declared deviations at which it hangs; `signals` are exit codes by signal, None where it is ignored, absent where
    it kills.
    """

    version: str
    handle: str
    answered: tuple[Line, ...]
    failed: Ending
    nonexistent_id: Ending
    usage: Ending
    started: tuple[Line, ...] = ()
    called: tuple[Line, ...] = ()
    retrying: tuple[Line, ...] = ()
    unanswered: tuple[Line, ...] = ()
    ids: Mapping[str, str] = field(default_factory=dict)
    system_prompt: Mapping[str, str] = field(default_factory=dict)
    hangs: tuple[str, ...] = ()
    signals: Mapping[str, int | None] = field(default_factory=dict)
    sticky: StickySimulation = StickySimulation()
