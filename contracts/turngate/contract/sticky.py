"""What a contract says of keeping its engine's process over several turns."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Struct, field

from turngate.contract.values import NOT_EMPTY, Flag, Rule, Strings, Text, Texts


class ModeQuery(Struct, frozen=True):
    """How to see, before the start, that the configuration in force asks.

    argv: Arguments of a command that prints a JSON document.
    key: Wherever this key stands in the document, all that is below it must be among `values`.
    """

    argv: Annotated[Strings, NOT_EMPTY]
    key: Text
    values: Annotated[Strings, NOT_EMPTY]


class PermissionMode(Struct, frozen=True):
    """What makes a sticky process ask before it acts, or act alone, and what shows that it does.

    env: Variables of the process's environment.
    options: Arguments that stand for {options}, before those of the caller.
    session: Fields of the request that opens a session.
    expect: Path in the answer to that request -> the value that it must have.
    mode: The session mode that is set, and that the engine must confirm.
    """

    RULE: ClassVar[Rule] = {"minProperties": 1}

    env: Mapping[str, str] = field(default_factory=dict)
    options: Texts = ()
    session: Mapping[str, str] = field(default_factory=dict)
    expect: Annotated[Mapping[str, str], NOT_EMPTY] = field(default_factory=dict)
    mode: Text | None = None
    query: ModeQuery | None = None


class OneTime(Struct, frozen=True):
    """The transport's words for allowing and refusing one action alone."""

    allow: Text
    deny: Text


class Sticky(Struct, frozen=True):
    """How one process is kept over several turns.

    argv: Arguments after the executable; {options} stands for the options of the caller and of the mode.
    options: The options, declared under `options`, that argv takes; others are refused.
    model: How a model is asked for: by `launch.model` among the options, or of the session by the protocol.
    interactive: What switches asking on, and what shows that it is on.
    auto: What else is set where nobody is asked; what the engine asks for is granted once, each time.
    permission_requests: The requests by which the engine asks for permission; any other is answered with an error.
    same_id: Whether a headless resume takes the session id of the transport.
    own_store: Whether the process keeps its sessions elsewhere than headless turns do.
    """

    RULE: ClassVar[Rule] = {
        "if": {"properties": {"transport": {"enum": ["acp", "app_server", "stream_json"]}, "unverified": False}},
        "then": {"required": ["argv", "interactive", "permission_requests", "one_time", "same_id", "own_store"]},
    }

    transport: Literal["acp", "app_server", "stream_json", "none"]
    argv: Strings = ()
    options: tuple[Flag, ...] = ()
    model: Literal["argument", "session"] = "argument"
    interactive: PermissionMode | None = None
    auto: PermissionMode | None = None
    permission_requests: Annotated[Texts, NOT_EMPTY] = ()
    one_time: OneTime | None = None
    same_id: bool = False
    own_store: bool = False
