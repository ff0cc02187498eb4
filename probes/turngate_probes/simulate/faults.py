"""The one list of what a simulated engine can do wrong.

Each fault is a field of `Faults`: its type is that of its parameter, and its description says what the engine does and
at which point. `turngate simulate --fault`, the scenarios of `turngate conform` and the tests name faults by these
fields. A name has dashes on the command line.
"""

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct, ValidationError
from msgspec.structs import asdict

from turngate.decoding import convert
from turngate.errors import did_you_mean

# what plays a fault: a call that runs one turn, several such calls of a session, a sticky process, a call or a process,
# or only a scenario with several calls
Player = Literal["turn", "turns", "process", "both", "scenario"]

LEFT_ALONE = ("orphan", "hidden")
_ExitCode = Annotated[int, Meta(ge=0, le=255)]
_FailureStatus = Annotated[int, Meta(ge=400, le=599)]


def _by(player: Player, does: str, least: int | None = None, most: int | None = None) -> Meta:
    return Meta(description=does, extra={"by": player}, ge=least, le=most)


class Faults(Struct, frozen=True, forbid_unknown_fields=True):
    """What an engine does wrong; without values, nothing."""

    delay: Annotated[float, _by("both", "waits so many seconds before its first output", 0, 86400)] = 0.0
    together: Annotated[bool, _by("scenario", "waits until every conversation of the scenario has come as far")] = False
    exits_unread: Annotated[
        bool, _by("turn", "exits with 1 and a message on stderr, without reading its standard input")
    ] = False
    waits_for_stdin: Annotated[bool, _by("turn", "starts when its standard input has ended")] = False
    joins_lines: Annotated[bool, _by("turn", "reads its prompt as one line")] = False
    child: Annotated[
        Literal["works", "stays", "orphan", "hidden"] | None,
        _by(
            "both",
            "`works`: starts the process that does the work, as a launcher does; `stays`: a turn leaves a process that "
            "holds its streams; `orphan`: a turn leaves one with another parent and session; `hidden`: and without "
            "variables",
        ),
    ] = None
    notice: Annotated[str, _by("both", "prints this text on stderr before everything else")] = ""
    stderr_bytes: Annotated[int, _by("both", "prints so many bytes on stderr before its first record", 0)] = 0
    colours: Annotated[bool, _by("turn", "begins its output with a colour if FORCE_COLOR is set")] = False
    banner: Annotated[str, _by("both", "prints this text before everything else")] = ""
    bom: Annotated[bool, _by("both", "begins its output with a byte order mark")] = False
    crlf: Annotated[bool, _by("both", "ends its lines with CR and LF")] = False
    chunk: Annotated[
        int, _by("both", "writes so many bytes at a time, and cuts each character of several bytes", 0)
    ] = 0
    pause: Annotated[float, _by("both", "waits so many seconds between its first record and the next", 0, 86400)] = 0.0
    warns_inside: Annotated[bool, _by("turn", "prints a warning on stderr in the middle of each record")] = False
    unknown: Annotated[bool, _by("both", "prints a record of a kind that nobody knows in each turn")] = False
    padding: Annotated[int, _by("both", "prints such a record with a text of so many bytes", 0)] = 0
    prints_noise: Annotated[bool, _by("both", "prints a line that is not JSON before each message")] = False
    decoy: Annotated[bool, _by("turn", "prints another id first: on stderr, and in a record of an unknown kind")] = (
        False
    )
    several_messages: Annotated[
        bool, _by("turn", "begins with another message of the agent, if its messages are not its end")
    ] = False
    omits_answer: Annotated[bool, _by("both", "ends the turn properly, but with an empty text")] = False
    blank_answer: Annotated[bool, _by("both", "ends the turn properly, with a text of white space alone")] = False
    omits_end: Annotated[bool, _by("both", "leaves out the record that proves the end of the turn")] = False
    late_text: Annotated[
        bool, _by("process", "sends the last piece of its text after the response that ends the turn (acp)")
    ] = False
    exits_undrained: Annotated[
        bool, _by("turn", "exits without waiting until a pipe has taken what it prints, and loses the rest")
    ] = False
    repeats_end: Annotated[bool, _by("turn", "prints the record that proves the end of the turn twice")] = False
    goes_on_by_itself: Annotated[
        bool, _by("both", "begins another turn after its turn, with a prompt that nobody wrote, and answers it")
    ] = False
    asks_nothing: Annotated[bool, _by("scenario", "answers in each turn, without a question")] = False
    crash: Annotated[bool, _by("both", "is killed by a signal in the middle of its output")] = False
    hang: Annotated[
        Literal["before", "during", "after", "heartbeat"] | None,
        _by(
            "both",
            "never ends: before its output, in the middle of it, or after it; `heartbeat`: in the middle (a process: "
            "before it), with a sign of life every half second",
        ),
    ] = None
    exit_code: Annotated[_ExitCode | None, _by("both", "exits with this code (a process: when it dies)")] = None
    session_id: Annotated[
        Literal["absent", "last", "stderr"] | None,
        _by("both", "prints its session id nowhere, in its last record, or on stderr (a process: nowhere)"),
    ] = None
    session: Annotated[
        Literal["lost", "fresh"] | None,
        _by("both", "has lost the session to resume, and says so (`lost`) or starts another one (`fresh`)"),
    ] = None
    changes_session: Annotated[bool, _by("both", "uses another session id from its second turn on")] = False
    forgets: Annotated[bool, _by("both", "sends the model no earlier turns")] = False
    loses_summary: Annotated[
        bool, _by("turn", "forgets a conversation that the model summarizes because it is too long")
    ] = False
    keeps_turns: Annotated[int, _by("turn", "sends the model only so many of its last turns", 0)] = 0
    ignores_instructions: Annotated[
        bool, _by("turn", "sends the model nothing of the instruction file in the workspace")
    ] = False
    forgets_after: Annotated[
        Literal["call", "failure", "kill"] | None,
        _by(
            "turns",
            "sends the model no earlier turns after a tool call, a failure of the model, or a kill",
        ),
    ] = None
    accepts_both: Annotated[
        bool, _by("turns", "accepts two resumes of a session at once, and keeps the message of only one")
    ] = False
    dies_in_turn: Annotated[bool, _by("process", "exits during its first turn")] = False
    dies_after_turn: Annotated[bool, _by("process", "exits once its first turn has ended")] = False
    dies_at_reply: Annotated[bool, _by("process", "exits when the next message comes after its first turn")] = False
    ignores_termination: Annotated[
        bool,
        _by("both", "ignores SIGTERM, SIGINT and the end of its input; only SIGKILL ends it"),
    ] = False
    closes: Annotated[
        Literal["stdin", "stdout"] | None, _by("process", "closes this stream during a turn, and hangs")
    ] = None
    release: Annotated[
        Literal["after", "during", "gone"] | None,
        _by(
            "scenario",
            "the executable becomes the next release after the turn or during it, or is gone",
        ),
    ] = None
    acts_unasked: Annotated[bool, _by("both", "acts without asking, whatever mode it reports")] = False
    answers_questions: Annotated[
        bool,
        _by("turn", "offers the tool by which the agent asks its user, and answers its questions itself"),
    ] = False
    kills_commands: Annotated[
        bool, _by("turn", "has a sandbox that kills each command, and ends its turn as if nothing had happened")
    ] = False
    asks_anyway: Annotated[bool, _by("process", "asks for each action, although its mode lets it act")] = False
    asks_twice: Annotated[bool, _by("process", "asks for each action with two requests at once")] = False
    abandons_request: Annotated[bool, _by("process", "asks, and ends the turn without waiting for the answer")] = False
    asks_on_signal: Annotated[bool, _by("process", "asks for an action when it gets SIGUSR1")] = False
    asks_unknown: Annotated[bool, _by("process", "sends a request of a kind that nobody knows")] = False
    odd_request: Annotated[
        Literal["nested", "digits"] | None,
        _by("process", "asks in JSON that is nested 900 levels deep, or has a number of 401 digits"),
    ] = None
    choices: Annotated[
        Literal["many", "long", "unnamed"] | None,
        _by("process", "offers 99 more choices, one of 1001 characters, or choices without names"),
    ] = None
    wrong_mode: Annotated[bool, _by("process", "is in another permission mode than the requested one")] = False
    leaves_mode: Annotated[bool, _by("process", "reports a switch to another permission mode")] = False
    hides_mode: Annotated[bool, _by("process", "does not confirm the mode that is requested")] = False
    ignores_settings: Annotated[bool, _by("both", "shows a configuration that lets it act without asking")] = False
    ignores_model: Annotated[
        bool, _by("turn", "asks its default model with its default effort, whatever the options say")
    ] = False
    refuses_model: Annotated[bool, _by("process", "knows no request to set the model")] = False
    refuses_prompt: Annotated[bool, _by("process", "refuses each prompt")] = False
    retries: Annotated[
        int,
        _by("turn", "loses the model so many times, reports it as usual, and then answers", 0),
    ] = 0
    says: Annotated[
        Literal["records", "envelope", "unicode", "long"] | None,
        _by("both", "the model begins with records, an envelope, characters of several bytes, or 200 KB of text"),
    ] = None
    backend: Annotated[_FailureStatus | None, _by("both", "the model backend fails with this HTTP status")] = None


class Play(Faults, frozen=True, forbid_unknown_fields=True):
    """The faults of one turn of a conversation, counted from 1; None: of every turn."""

    turn: int | None = None


NONE = Faults()
_DEFAULTS = asdict(NONE)
_WIDTH = 92  # columns of a name and what it does


class Fault(Struct, frozen=True):
    """One entry of the list: its name with dashes, the words for its value (empty: it has none), and what it does."""

    name: str
    value: str
    does: str
    by: Player


def listed() -> tuple[Fault, ...]:
    """Return every fault, in the order of the fields."""
    hints = get_type_hints(Faults, include_extras=True)
    fields = ((name, *get_args(hints[name])) for name in Faults.__struct_fields__)
    return tuple(Fault(named(name), _value(kind), meta.description, meta.extra["by"]) for name, kind, meta in fields)


def _value(kind: object) -> str:
    words = [word for part in (kind, *get_args(kind)) if get_origin(part) is Literal for word in get_args(part)]
    if words:
        return "|".join(map(str, words))
    kinds = {bool: "", float: "SECONDS", str: "TEXT"}
    return next((word for known, word in kinds.items() if kind is known), "NUMBER")


def named(field: str) -> str:
    """Return the name of a fault with dashes."""
    return field.replace("_", "-")


def changed(faults: Faults) -> dict[str, Any]:
    """Return the fields that an engine without faults doesn't have, with their values."""
    return {name: value for name, value in asdict(faults).items() if value != _DEFAULTS.get(name)}


def parsed(words: Iterable[str]) -> Faults:
    """Return the faults in words, each NAME or NAME=VALUE; ValueError says what is wrong with one."""
    known = _by_name()
    fields: dict[str, object] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if name not in known:
            near = did_you_mean(name, known, "`--fault list` describes them all")
            raise ValueError(f"{name!r} is not a fault ({near})")
        wanted = known[name].value
        if bool(wanted) != bool(value) or bool(equals) != bool(value):
            raise ValueError(f"it is {name}={wanted}" if wanted else f"{name!r} takes no value")
        fields[name.replace("-", "_")] = value or True
    try:
        return convert(fields, Faults, strict=False)
    except ValidationError as wrong:
        raise ValueError(str(wrong)) from wrong


def _by_name() -> Mapping[str, Fault]:
    return {fault.name: fault for fault in listed() if fault.by != "scenario"}


def descriptions() -> Iterator[str]:
    """Yield the lines that say what each fault does."""
    faults = _by_name()
    words = {name: f"{name}={fault.value}" if fault.value else name for name, fault in faults.items()}
    width = max(map(len, words.values()))
    for name, fault in faults.items():
        first, *more = textwrap.wrap(fault.does.replace("`", ""), _WIDTH - width)
        yield f"{words[name]:{width}}  {first}"
        yield from (" " * (width + 4) + line for line in more)


def for_turn(plays: Iterable[Play], turn: int) -> Faults:
    """Return what is played in one turn, as one value."""
    fields: Mapping[str, Any] = {}
    for play in plays:
        if play.turn in (None, turn):
            fields = {**fields, **changed(play)}
    return Faults(**{name: value for name, value in fields.items() if name != "turn"})
