"""What `simulations/<engine>.yaml` says about simulating an engine. `schema/simulation.json` is generated from it."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct, field

from turngate.contract.values import NOT_EMPTY, Rule, Text, Texts, either, has, keys, matching

ExitCode = Annotated[int, Meta(ge=0, le=255)]
_WHEN = "^(start|resume|auto|interactive|dead|malformed|elsewhere|away|cut|[1-5][0-9][0-9])$"


class Line(Struct, frozen=True):
    """Output of a simulated engine on one stream: text, or a record in the framing of that stream.

    Slots are {handle}, {text}, {model}, {turn}, {messages}, {millis}, {hex:N}, {alnum:N}, {uuid}, {error}, {status},
    and `ids`.

    when: Printed only if all of these match: the kind of turn, the problem with the session, the backend failure.
    """

    RULE: ClassVar[Rule] = either(has("stdout"), ("stdout",), ("stderr",))

    stdout: str | Mapping[str, Any] | None = None
    stderr: str | Mapping[str, Any] | None = None
    when: Annotated[tuple[Annotated[str, matching(_WHEN)], ...], NOT_EMPTY] = ()


class Ending(Struct, frozen=True):
    """How a simulated engine fails.

    exit_code: `status`: the HTTP status modulo 256, or 1 without one.
    """

    exit_code: ExitCode | Literal["status"]
    lines: tuple[Line, ...] = ()


class StickySimulation(Struct, frozen=True):
    """How the sticky process of this engine differs from others with the same transport.

    starts_in: The session mode at the start. Absent: that of mode interactive.
    modes: How to set a session mode: as an option of the session, by a separate request that an update confirms, or by
        one whose response confirms it (which then also holds for the model).
    after_refusal: Whether the agent answers after a refused action, or the turn ends without text.
    """

    starts_in: Text | None = None
    modes: Literal["option", "request", "answer"] = "request"
    after_refusal: Literal["answers", "ends"] = "answers"


class Simulation(Struct, frozen=True):
    """What a simulated engine prints. Its behaviour follows from its contract.

    version: Printed when asked for its version. {version} is the release.
    handle: The form of a new session id, with slots such as {hex:8}, {alnum:14} and {uuid}.
    answered: Printed at the end of a successful turn: {text}.
    failed: How a turn with a failing backend ends: {error}, {status}.
    nonexistent_id: How it refuses to resume: {handle}.
    usage: How it rejects its arguments: {error}.
    started: Printed before the request to the model.
    called: Printed for each tool that the model calls: {tool}, {call_id}.
    retrying: Printed when the model backend fails, before anything else.
    unanswered: Printed where a failing backend looks like a success.
    ids: Slot -> the form of an id that is generated once per turn.
    system_prompt: The system prompt about the approval in force, by mode.
    hangs: Backend failures (such as 429) after which it never exits, in addition to those that a deviation declares.
    signals: Signal -> exit code, or null where the signal is ignored. Absent: the signal kills.
    """

    version: Text
    handle: Text
    answered: tuple[Line, ...]
    failed: Ending
    nonexistent_id: Ending
    usage: Ending
    started: tuple[Line, ...] = ()
    called: tuple[Line, ...] = ()
    retrying: tuple[Line, ...] = ()
    unanswered: tuple[Line, ...] = ()
    ids: Mapping[str, Text] = field(default_factory=dict)
    system_prompt: Annotated[Mapping[str, Text], keys("auto", "interactive")] = field(default_factory=dict)
    hangs: Texts = ()
    signals: Annotated[Mapping[str, ExitCode | None], keys("SIGINT", "SIGTERM")] = field(default_factory=dict)
    sticky: StickySimulation = StickySimulation()
