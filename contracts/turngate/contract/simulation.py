"""What `simulations/<engine>.yaml` says about simulating an engine. `schema/simulation.json` is generated from it."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct, field

from turngate.contract.values import NOT_EMPTY, Rule, Text, Texts, either, has, keys, matching

ExitCode = Annotated[int, Meta(ge=0, le=255)]
_WHEN = "^(start|resume|auto|interactive|dead|malformed|elsewhere|away|cut|[1-5][0-9][0-9])$"


class Line(Struct, frozen=True):
    """Something that a simulated engine prints on one stream: text, or a record that is framed as the stream is.

    Slots are {handle}, {text}, {model}, {turn}, {messages}, {millis}, {hex:N}, {alnum:N}, {uuid}, {error}, {status},
    and `ids`.

    when: Printed only if all of these hold: the kind of turn, what is wrong with the session, how the backend failed.
    """

    RULE: ClassVar[Rule] = either(has("stdout"), ("stdout",), ("stderr",))

    stdout: str | Mapping[str, Any] | None = None
    stderr: str | Mapping[str, Any] | None = None
    when: Annotated[tuple[Annotated[str, matching(_WHEN)], ...], NOT_EMPTY] = ()


class Ending(Struct, frozen=True):
    """How a simulated engine ends badly.

    exit_code: `status`: the HTTP status modulo 256, or 1 without one.
    """

    exit_code: ExitCode | Literal["status"]
    lines: tuple[Line, ...] = ()


class StickySimulation(Struct, frozen=True):
    """How a sticky process differs from others on its transport.

    starts_in: The session mode that a process starts in; absent: that of mode interactive.
    modes: How a session mode is set: as an option of the session, by a request of its own that an update confirms, or
        by one that its answer confirms, as it then does for the model too.
    after_refusal: Whether the agent answers after a refused action, or the turn ends without a text.
    """

    starts_in: Text | None = None
    modes: Literal["option", "request", "answer"] = "request"
    after_refusal: Literal["answers", "ends"] = "answers"


class Simulation(Struct, frozen=True):
    """What a simulated engine prints; its behaviour follows from its contract.

    version: What it prints when asked for its version; {version} is the release.
    handle: The form of a new session id, in slots such as {hex:8}, {alnum:14} and {uuid}.
    answered: Printed at the end of a good turn: {text}.
    failed: How a turn ends whose backend failed: {error}, {status}.
    nonexistent_id: How it refuses to resume: {handle}.
    usage: How it refuses its arguments: {error}.
    started: Printed before the model is asked.
    called: Printed for each tool that the model calls: {tool}, {call_id}.
    retrying: Printed when the model backend fails, before anything else.
    unanswered: Printed where a failing backend passes for a success.
    ids: Slot -> the form of an id that is made once a turn.
    system_prompt: The system prompt about the approval in force, by mode.
    hangs: Backend failures (429 and the like) after which it never ends, besides those that a deviation declares.
    signals: Signal -> exit code, or null where the signal is ignored; absent: the signal kills.
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
