"""What a contract says about running its engine: argv, options, approval, environment, sessions on disk, sticky."""

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field

from turngate.contract.allowed import InteractiveUse
from turngate.contract.values import (
    ABSENT,
    NOT_EMPTY,
    Flag,
    Regex,
    Rule,
    Strings,
    Text,
    Texts,
    Unique,
    Variable,
    either,
    has,
    matching,
)  # fmt: skip

Stream = Literal["stdout", "stderr"]
Template = Annotated[tuple[Annotated[str, matching(r"^(\{(options|prompt)\}|[^{}]*(\{handle\})?)$")], ...], NOT_EMPTY]


class HelpPage(Struct, frozen=True):
    """A help page.

    argv: Arguments after the executable.
    names: Flags or subcommands that the page must name as whole words.
    """

    argv: Strings
    names: Texts
    stream: Stream = "stdout"

    def missing(self, printed: str) -> Strings:
        """Return the names that the page should hold as whole words but does not."""
        return tuple(n for n in self.names if not re.search(rf"(?<![\w-]){re.escape(n)}(?![\w-])", printed))


class Help(Struct, frozen=True):
    """Help pages, and what the contract uses of them."""

    pages: Annotated[tuple[HelpPage, ...], NOT_EMPTY]


class UsageRefusal(Struct, frozen=True):
    """Prompts that a channel can't carry unaltered, and why."""

    pattern: Regex
    why: Text


class PromptChannel(Struct, frozen=True):
    """One way in which a prompt travels.

    tokens: What replaces {prompt} in the template; {text} is the prompt itself.
    max_bytes: The longest prompt in bytes of UTF-8.
    refuses: Prompts that this way can't carry unaltered.
    """

    via: Literal["argument", "stdin"]
    tokens: Strings
    max_bytes: Annotated[int, Meta(ge=1)] | None = None
    refuses: tuple[UsageRefusal, ...] = ()


class Launch(Struct, frozen=True):
    """The argv of a first turn and of a resume.

    A token that is a slot alone ({options}, {prompt}) is replaced by any number of tokens. {handle} stands for the
    session id.

    prompt: Ways in which the prompt travels; the first that can carry it is taken.
    auto: Options passed in mode auto, and never in mode interactive.
    model: Options that choose a model; {model} is its name.
    interactive: Options passed in mode interactive, where the engine otherwise acts without asking, or starts programs
        that the workspace names.
    interactive_env: Variables set in mode interactive, for the same reasons.
    """

    start: Template
    resume: Template
    prompt: Annotated[tuple[PromptChannel, ...], NOT_EMPTY]
    auto: Strings
    model: Strings
    interactive: Annotated[Strings, NOT_EMPTY] = ()
    interactive_env: Annotated[Mapping[Variable, str], NOT_EMPTY] = field(default_factory=dict)

    def resume_names(self, page: HelpPage) -> frozenset[str]:
        """Return the names on a page that only a resume needs.

        They are the flags and subcommands that the resume argv has and the start argv lacks, and every name on the help
        page of such a subcommand.
        """
        words = {token for token in self.resume if "{" not in token} - {*self.start}
        return frozenset(page.names if words & {*page.argv} else words & {*page.names})


class Option(Struct, frozen=True):
    """An option that callers may pass, since the contract can place it. Any other is refused.

    value: none: a switch; required: one value, as the next token or after `=`; many: may be repeated, one value each.
    on_resume: omit: a resume can't carry it; the session keeps what the first turn set.
    interactive: What callers may pass of it in mode interactive. Absent: nothing.
    """

    flag: Flag
    value: Literal["none", "required", "many"]
    aliases: tuple[Flag, ...] = ()
    on_resume: Literal["keep", "omit"] = "keep"
    interactive: InteractiveUse | None = None


class AutoKey(Struct, frozen=True):
    """A key of `--config key=value` that widens approval or sandbox unless its value is safe."""

    key: Text
    safe_values: Texts = ()


class AutoFlag(Struct, frozen=True):
    """A flag that widens approval or sandbox so that the engine acts without asking.

    safe_values: Values with which the flag widens nothing. Any other value, known or not, counts. Absent: the flag
        itself counts.
    keys: For `--config key=value` flags: keys that count, unless the value is safe.
    """

    flag: Flag
    aliases: tuple[Flag, ...] = ()
    safe_values: Texts | None = None
    keys: Annotated[tuple[AutoKey, ...], NOT_EMPTY] = ()


class ApprovalSign(Struct, frozen=True):
    """What requests to the model show of the approval in force.

    tools: Tools that are offered only by an engine that acts without asking.
    pattern: Finds the approval in the body of a request: its group `value`.
    safe_values: Values of the group with which the engine asks, or acts on nothing.
    """

    RULE: ClassVar[Rule] = either(has("pattern"), ("pattern", "safe_values"), ("tools",))

    tools: Annotated[Texts, NOT_EMPTY] = ()
    pattern: Annotated[Regex, matching(r"\(\?P<value>")] | None = None
    safe_values: Annotated[Texts, NOT_EMPTY] = ()


class LostTools(Struct, frozen=True):
    """Tools that a headless interactive turn can't use, though one in mode auto can.

    why: What happens to them.
    """

    tools: Annotated[Texts, NOT_EMPTY]
    why: Text


class StoreCheck(Struct, frozen=True):
    """How to check on disk that a session exists.

    pattern: Matches the session's file; {handle}, {handle:8} (its first eight characters), {cwd} (with a dash for all
        but letters and digits) and the variables stand for their values, * for any part of a name.
    query: One parameter, the handle; a row means that the session exists.
    """

    RULE: ClassVar[Rule] = either(has("kind", "sqlite"), ("file", "query"), ("pattern",))

    kind: Literal["glob", "sqlite"]
    pattern: Text = ""
    file: Text = ""
    query: Text = ""


class SessionStore(Struct, frozen=True):
    """Where a session is stored on disk, so that a session id can be checked before it is used.

    locations: Variable -> its default, both usable in `check`; a default may use {HOME} and the variables before it.
    """

    locations: Mapping[str, Text]
    check: StoreCheck


class Environment(Struct, frozen=True):
    """The environment variables that an engine gets, besides those for every program (PATH, LANG, proxies ...).

    pass: Keys, base URLs, and switches of model, provider, trust, update and telemetry; passed as they are, and never
        written down.
    locations: Variables that decide where sessions and settings lie, those of `store` among them; kept from a run's
        first turn to its last. HOME always is one.
    """

    passed: Annotated[tuple[Variable, ...], Unique] = field(name="pass")
    locations: Annotated[tuple[Variable, ...], Unique]


class ResumeProbe(Struct, frozen=True):
    """What decides, before an engine is run, whether its sessions can be resumed.

    unsupported: Why sessions of these releases can't be resumed: they print no session id, or have no resume.
    directory: A directory that must be writable, or could be made. {HOME} and the variables of `store` stand for their
        values.
    """

    RULE: ClassVar[Rule] = {"if": has("unsupported"), "then": {"properties": {"directory": ABSENT}}}

    unsupported: Text | None = None
    directory: Text | None = None


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
    """How one process serves several turns.

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
