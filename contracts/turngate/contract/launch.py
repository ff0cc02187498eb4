"""What a contract says about running its engine: argv, options, approval, environment, sessions, sticky processes.

What callers may pass in mode interactive is a list, each entry with its evidence.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct, field, structs

from turngate.contract.command_protocol import JsonCommands
from turngate.contract.values import (
    ABSENT,
    NOT_EMPTY,
    FileName,
    Flag,
    Name,
    RecordPath,
    Regex,
    SchemaRule,
    Strings,
    Text,
    Texts,
    Unique,
    Variable,
    either,
    has,
    matching,
)
from turngate.contract.versions import ClaimEvidence

# what a sticky process must have
_VERIFIED: SchemaRule = {"properties": {"transport": {"not": {"const": "none"}}, "unverified": False}}
_WHOLE: SchemaRule = {
    "required": ["argv", "interactive", "permission_requests", "one_time", "keeps_session_id", "private_store"]
}
_COMMANDS = either(has("transport", "json_commands"), ("commands",), ())
Stream = Literal["stdout", "stderr"]
_SLOTS = "An argument. {options} and {prompt} are arguments of their own; {handle} is one, or the end of one."
_ARGUMENT = matching(r"^(\{(options|prompt)\}|[^{}]*(\{handle\})?)$", description=_SLOTS)
Template = Annotated[tuple[Annotated[str, _ARGUMENT], ...], NOT_EMPTY]


class AllowedValues(Struct, frozen=True, kw_only=True):
    """Allowed values: a list, or a pattern that must match the whole value."""

    values: Annotated[Texts, NOT_EMPTY] = ()
    pattern: Regex | None = None

    def allow(self, value: str) -> bool:
        """Whether a value is allowed."""
        return value in self.values if self.pattern is None else re.fullmatch(self.pattern, value) is not None


class AllowedKey(AllowedValues, frozen=True, kw_only=True):
    """A key of a `key=value` option that callers may set in mode interactive.

    key: The whole key, exactly as callers must write it.
    values: The allowed values. Callers may quote them.
    pattern: Matches the whole value without its quotes.
    """

    RULE: ClassVar[SchemaRule] = either(has("pattern"), ("pattern",), ("values",))

    key: Annotated[str, matching(r"^[A-Za-z_][A-Za-z0-9_.-]*$")]


class InteractiveUse(AllowedValues, frozen=True, kw_only=True):
    """The values of an option that callers may pass in mode interactive. All others are rejected.

    An option with a value has one of `values`, `pattern`, `path` and `keys`. A switch has none.

    evidence: Shows that the option starts no program, widens no approval, and stays in the workspace.
    values: The allowed values.
    pattern: Matches the whole value.
    path: workspace: the value is a path in the run's workspace, even after resolving symbolic links.
    keys: The allowed keys of a `key=value` option.
    """

    evidence: Annotated[tuple[ClaimEvidence, ...], NOT_EMPTY]
    path: Literal["workspace"] | None = None
    keys: Annotated[tuple[AllowedKey, ...], NOT_EMPTY] = ()


class ModeQuery(Struct, frozen=True):
    """How to check before the start that the active configuration asks.

    argv: Arguments of a command that prints a JSON document.
    key: Wherever this key occurs in the document, everything below it must be one of `values`.
    """

    argv: Annotated[Strings, NOT_EMPTY]
    key: Text
    values: Annotated[Strings, NOT_EMPTY]


class HelpPage(Struct, frozen=True):
    """A help page.

    argv: Arguments after the executable.
    names: Flags or subcommands that the page must contain as whole words.
    """

    argv: Strings
    names: Texts = ()
    stream: Stream = "stdout"

    def missing(self, printed: str) -> Strings:
        """Return the names that the page should contain as whole words but does not."""
        return tuple(n for n in self.names if not re.search(rf"(?<![\w-]){re.escape(n)}(?![\w-])", printed))

    def is_complete(self, printed: str) -> bool:
        """Return whether the page contains all names."""
        return not self.missing(printed)


class Help(Struct, frozen=True):
    """Help pages, and the names on them that the contract uses.

    Options of `launch` and `guards` that no page lists here are expected on the first page.

    hidden: Options that the release accepts although none of these pages names them.
    """

    pages: Annotated[tuple[HelpPage, ...], NOT_EMPTY] = (HelpPage(("--help",)),)
    hidden: Annotated[tuple[Flag, ...], NOT_EMPTY] = ()

    def covering(self, options: Iterable[str]) -> "Help":
        """Return these pages, with the options that none of them names on the first."""
        named = {*self.hidden, *(name for page in self.pages for name in page.names)}
        first, *others = self.pages
        names = (*first.names, *(option for option in options if option not in named))
        return structs.replace(self, pages=(structs.replace(first, names=names), *others))


class Listing(Struct, frozen=True):
    """A plain command that lists what a release has, without a turn, so that releases can be compared.

    what: command: subcommands; without a pattern, a help page that names them, and so do their own pages, for which
        they stand before its arguments; feature: features that are on by default; model: models that it knows;
        protocol: messages and items of a protocol, from a JSON Schema or an OpenAPI.
    argv: Arguments after the executable. {home} is the engine's home directory.
    pattern: Finds each item in the output. Its group `name` is the item. Commands that no help page names are hidden.
    file: The file that it writes, to be read in place of its output.
    unions: What the variants of a union, or the fields of an object, are called -> the path of its definition; `paths`:
        the calls of an OpenAPI.
    uses: The variants and the fields that turngate uses, such as `item agentMessage: text`.
    """

    RULE: ClassVar[SchemaRule] = {
        "allOf": [
            {"if": has("what", "feature", "model"), "then": {"required": ["pattern"]}},
            either(has("what", "protocol"), ("unions",), ()),
        ]
    }

    what: Literal["command", "feature", "model", "protocol"]
    argv: Strings
    pattern: Annotated[Regex, matching(r"\(\?P<name>")] | None = None
    file: Text = ""
    unions: Annotated[Mapping[Name, Text], NOT_EMPTY] = field(default_factory=dict)
    uses: Annotated[Texts, NOT_EMPTY] = ()

    @property
    def asks_subcommands(self) -> bool:
        """Whether the pages of the subcommands that a page names follow it."""
        return self.what == "command" and self.pattern is None


class ToolSearch(Struct, frozen=True):
    """A tool by which the model finds others, which a request only names.

    tool: Its name.
    pattern: Finds, in the texts of a request, a list of their names. In its group `names` each line begins with one.
    """

    tool: Text
    pattern: Annotated[Regex, matching(r"\(\?P<names>")]


class TypeFile(Struct, frozen=True):
    """A TypeScript file with the messages of a release, which the vendor publishes in another npm package.

    package: The name of the package, such as that of an SDK.
    release: The key of its manifest that names the release.
    file: The path of the file in the package.
    unions: What variants or the fields of an object are called -> the name of their type.
    uses: The variants and the fields that turngate uses, such as `request interrupt`.
    """

    package: Text
    release: Text
    file: Text
    unions: Annotated[Mapping[Text, Text], NOT_EMPTY]
    uses: Annotated[Texts, NOT_EMPTY] = ()


class UsageRefusal(Struct, frozen=True):
    """Prompts that a channel can't carry unaltered, and why."""

    pattern: Regex
    why: Text


class PromptChannel(Struct, frozen=True):
    """One way to pass a prompt.

    tokens: What replaces {prompt} in the template; {text} is the prompt itself.
    max_bytes: The longest prompt in bytes of UTF-8.
    max_chars: The longest prompt in characters.
    refuses: Prompts that this channel can't carry unaltered.
    """

    via: Literal["argument", "stdin"]
    tokens: Strings
    max_bytes: Annotated[int, Meta(ge=1)] | None = None
    max_chars: Annotated[int, Meta(ge=1)] | None = None
    refuses: tuple[UsageRefusal, ...] = ()


class Launch(Struct, frozen=True):
    """The argv of a first turn and of a resume.

    A token that consists of a slot ({options}, {prompt}) is replaced by any number of tokens. {handle} is the
    session id.

    prompt: Ways to pass the prompt. The first one that can carry it is used.
    auto: Options passed only in mode auto.
    model: Options that choose a model; {model} is its name. None: a caller's model is refused.
    interactive: Options passed in mode interactive, to engines that otherwise act without asking or start programs that
        the workspace names.
    interactive_env: Variables set in mode interactive, for the same reasons.
    newest_session_options: Options that resume the newest session, whichever that is -> the tokens that resume a
        known one instead. turngate never passes them. The simulator accepts them, and `turngate conform` reports them.
    output: The name of the output mode that start and resume choose, if the engine has others under `outputs`.
    """

    start: Template
    resume: Template
    prompt: Annotated[tuple[PromptChannel, ...], NOT_EMPTY]
    auto: Strings
    model: Strings = ()
    interactive: Annotated[Strings, NOT_EMPTY] = ()
    interactive_env: Annotated[Mapping[Variable, str], NOT_EMPTY] = field(default_factory=dict)
    newest_session_options: Annotated[Mapping[Flag, Strings], NOT_EMPTY] = field(default_factory=dict)
    output: Name | Literal[""] = ""

    def accepts(self, size: int) -> bool:
        """Whether a prompt of `size` ASCII characters can be passed in one of the ways."""
        limits = ((channel.max_bytes, channel.max_chars) for channel in self.prompt)
        return any(all(most is None or size <= most for most in both) for both in limits)

    def resume_names(self, page: HelpPage) -> frozenset[str]:
        """Return the names on a page that only a resume needs.

        They are the flags and subcommands that the resume argv has and the start argv lacks, and every name on the help
        page of such a subcommand.
        """
        words = {token.removesuffix("={handle}") for token in self.resume if token != "{handle}"}
        words = {word for word in words if "{" not in word} - {*self.start}
        return frozenset(page.names if words & {*page.argv} else words & {*page.names})


class Guards(Struct, frozen=True):
    """What keeps a workspace from redirecting or reconfiguring the engine, in both modes, headless and sticky.

    env: Variables of every process of the engine. A value in the environment that it gets has precedence, except over
        one that names a supplied file.
    files: Name -> content of files that every process gets, in a folder of their own outside the workspace. {files} is
        that folder, in `env` and `options` and in those of `launch`.
    options: Options of every headless turn.
    proof: For a file that the engine loads: a variable that names a pipe. The file opens the pipe for reading when it
        has its first effect, or at the exit, and reads until the end. Only then does the process get its prompt,
        which must be on standard input. Without this proof the turn is refused.
    """

    RULE: ClassVar[SchemaRule] = {"if": has("proof"), "then": {"required": ["files"]}}

    env: Annotated[Mapping[Variable, str], NOT_EMPTY] = field(default_factory=dict)
    files: Annotated[Mapping[FileName, str], NOT_EMPTY] = field(default_factory=dict)
    options: Annotated[Strings, NOT_EMPTY] = ()
    proof: Variable | None = None


class Artifacts(Struct, frozen=True):
    """What lets a headless turn in mode interactive write below one directory of the workspace, and nowhere else.

    {artifacts} is the absolute path of that directory, {files} the folder of the files, {python} the interpreter that
    runs turngate.

    options: Options that take the place of `launch.interactive`.
    files: Name -> content of files that the process gets, beside those of `guards`.
    yields_to: A caller's options, and keys of `key=value` options, beside which the means can't work. A turn with one
        of them writes no artifacts.
    """

    options: Annotated[Strings, NOT_EMPTY]
    files: Annotated[Mapping[FileName, str], NOT_EMPTY] = field(default_factory=dict)
    yields_to: Annotated[Texts, NOT_EMPTY] = ()


class FileMark(Struct, frozen=True):
    """A mark in a prompt by which the engine itself reads a file and sends its content to the model.

    pattern: Matches the mark. Its group `path` is the path of the file.
    """

    pattern: Annotated[Regex, matching(r"\(\?P<path>")]


class Option(Struct, frozen=True):
    """An option that callers may pass. Options that the contract doesn't list are rejected.

    value: none: a switch; required: one value, as the next token or after `=`; many: may be repeated, one value each.
    on_resume: omit: a resume can't carry it. The session keeps the value of the first turn.
    interactive: The values that callers may pass in mode interactive. Absent: none.
    """

    flag: Flag
    value: Literal["none", "required", "many"]
    aliases: tuple[Flag, ...] = ()
    on_resume: Literal["keep", "omit"] = "keep"
    interactive: InteractiveUse | None = None


class AutoKey(Struct, frozen=True):
    """A key of `--config key=value` that widens approval or sandbox unless its value is safe.

    safe_beside: As of a flag.
    """

    key: Text
    safe_values: Texts = ()
    safe_beside: Mapping[Text, Texts] = field(default_factory=dict)


class AutoFlag(Struct, frozen=True):
    """A flag that widens approval or sandbox, so that the engine can act without asking.

    safe_values: Values with which the flag widens nothing. Every other value, known or unknown, widens. Absent: the
        flag itself widens.
    safe_beside: Value -> flags and keys. If the same arguments set one of these to a safe value, it widens nothing.
    keys: For `--config key=value` flags: keys that widen unless their value is safe.
    """

    flag: Flag
    aliases: tuple[Flag, ...] = ()
    safe_values: Texts | None = None
    safe_beside: Mapping[Text, Texts] = field(default_factory=dict)
    keys: Annotated[tuple[AutoKey, ...], NOT_EMPTY] = ()


class ApprovalSign(Struct, frozen=True):
    """How requests to the model show the approval in force.

    tools: Tools that an engine offers only if it acts without asking.
    pattern: Finds the approval in the body of a request: its group `value`.
    safe_values: Values of the group with which the engine asks or doesn't act.
    unless: A request in which this is found shows nothing: it says that the engine writes only artifacts.
    """

    RULE: ClassVar[SchemaRule] = either(has("pattern"), ("pattern", "safe_values"), ("tools",))

    tools: Annotated[Texts, NOT_EMPTY] = ()
    pattern: Annotated[Regex, matching(r"\(\?P<value>")] | None = None
    safe_values: Annotated[Texts, NOT_EMPTY] = ()
    unless: Regex | None = None


class LostTools(Struct, frozen=True):
    """Tools that a headless turn can use in mode auto but not in mode interactive.

    why: What happens to them.
    """

    tools: Annotated[Texts, NOT_EMPTY]
    why: Text


class StoreCheck(Struct, frozen=True):
    """How to check on disk that a session exists.

    pattern: Matches the session's file. Slots are {handle}, {handle:8} (its first eight characters), {cwd} (with dashes
        for all but letters and digits) and the variables. * matches any part of a name.
    query: Takes one parameter, the session id. A row means that the session exists.
    """

    RULE: ClassVar[SchemaRule] = either(has("kind", "sqlite"), ("file", "query"), ("pattern",))

    kind: Literal["glob", "sqlite"]
    pattern: Text = ""
    file: Text = ""
    query: Text = ""


class SessionStore(Struct, frozen=True):
    """Where a session is stored on disk, so that a session id can be checked before it is used.

    locations: Variable -> its default; `check` may use both. A default may use {HOME} and the variables before it.
    """

    locations: Mapping[str, Text]
    check: StoreCheck


class Environment(Struct, frozen=True):
    """The environment variables that an engine gets in addition to those of every program (PATH, LANG, proxies ...).

    pass: API keys, base URLs, and switches for model, provider, trust, update and telemetry. They are passed unchanged
        and never saved.
    locations: Variables that decide where sessions and settings are stored, including those of `store`. Their values
        stay the same for all turns of a run. HOME is always one.
    """

    passed: Annotated[tuple[Variable, ...], Unique] = field(name="pass")
    locations: Annotated[tuple[Variable, ...], Unique] = ()


class ResumeProbe(Struct, frozen=True):
    """What decides, before an engine runs, whether its sessions can be resumed.

    unsupported: Why sessions of these releases can't be resumed: they print no session id, or have no resume.
    directory: A directory that must be writable, or possible to create. Slots are {HOME} and the variables of `store`.
    """

    RULE: ClassVar[SchemaRule] = {"if": has("unsupported"), "then": {"properties": {"directory": ABSENT}}}

    unsupported: Text | None = None
    directory: Text | None = None


class PermissionMode(Struct, frozen=True):
    """What makes a sticky process ask before it acts, or act without asking, and how to confirm it.

    env: Variables of the process's environment.
    files: Name -> content of files that the process gets, beside those of `guards`.
    options: Arguments that replace {options}, before those of the caller. {files} is the folder of the files.
    session: Fields of the request that opens a session.
    expect: Path in the response to that request -> its required value.
    turn: Fields of the requests that start a turn.
    mode: The session mode to set, which the engine must confirm.
    """

    RULE: ClassVar[SchemaRule] = {"minProperties": 1}

    env: Mapping[str, str] = field(default_factory=dict)
    files: Annotated[Mapping[FileName, str], NOT_EMPTY] = field(default_factory=dict)
    options: Texts = ()
    session: Mapping[str, str] = field(default_factory=dict)
    expect: Annotated[Mapping[RecordPath, str], NOT_EMPTY] = field(default_factory=dict)
    turn: Annotated[Mapping[str, Any], NOT_EMPTY] = field(default_factory=dict)
    mode: Text | None = None
    query: ModeQuery | None = None


class OneTime(Struct, frozen=True):
    """The transport's words for allowing or refusing only one action."""

    allow: Text
    deny: Text


class Sticky(Struct, frozen=True):
    """How one process serves several turns.

    argv: Arguments after the executable; {options} is replaced by the options of the caller and of the mode.
    options: The options, declared under `options`, that argv accepts. Others are rejected.
    model: How to choose a model: with `launch.model` among the options, or by a protocol request for the session.
    interactive: How to switch asking on, and how to confirm that it is on.
    auto: Additional settings for mode auto. Each permission request is granted once.
    permission_requests: The requests by which the engine asks for permission. Any other gets an error response.
    keeps_session_id: Whether a headless resume accepts the session id of the transport.
    private_store: Whether the process stores its sessions elsewhere than headless turns do.
    commands: The protocol, if the transport is json_commands.
    max_chars: The longest prompt in characters.
    """

    RULE: ClassVar[SchemaRule] = {"allOf": [{"if": _VERIFIED, "then": _WHOLE}, _COMMANDS]}

    transport: Literal["acp", "app_server", "stream_json", "json_commands", "none"] = "none"
    argv: Strings = ()
    options: tuple[Flag, ...] = ()
    model: Literal["argument", "session"] = "argument"
    interactive: PermissionMode | None = None
    auto: PermissionMode | None = None
    permission_requests: Annotated[Texts, NOT_EMPTY] = ()
    one_time: OneTime | None = None
    keeps_session_id: bool = False
    private_store: bool = False
    commands: JsonCommands | None = None
    max_chars: Annotated[int, Meta(ge=1)] | None = None
