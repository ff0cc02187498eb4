"""What `simulations/<engine>.yaml` says about simulating an engine. `schema/simulation.json` is generated from it."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field, structs

from turngate.contract.simulated_protocols import (
    AcpSimulation,
    AppServerSimulation,
    ServiceSimulation,
    StreamJsonSimulation,
)
from turngate.contract.values import (
    NOT_EMPTY,
    Flag,
    Match,
    Name,
    Regex,
    Release,
    SchemaRule,
    Text,
    Texts,
    Variable,
    either,
    has,
    keys,
    matching,
)

ExitCode = Annotated[int, Meta(ge=0, le=255)]
_FACTS = "start|resume|auto|interactive|dead|malformed|elsewhere|away|cut|similar|dissimilar|done|refused|retried"
_WHEN = f"^({_FACTS}|unknown-model|[1-5][0-9][0-9]|--[a-z][a-z-]*)$"

REFUSALS = (
    "unknown",
    "extra",
    "command",
    "missing",
    "unexpected",
    "repeated",
    "choice",
    "malformed",
    "no-prompt",
    "no-directory",
    "no-file",
    "in-use",
)

Facts = Annotated[tuple[Annotated[str, matching(_WHEN)], ...], NOT_EMPTY]
SIGNALS = ("SIGINT", "SIGTERM")


class Line(Struct, frozen=True):
    """Output of a simulated engine on one stream: text, or a record in the framing of that stream.

    Slots are {handle}, {text}, {prompt}, {model}, {cwd}, {turn}, {messages}, {millis}, {hex:N}, {alnum:N}, {uuid},
    {error}, {status}, {calls}, the number of tool calls so far, and `ids`. Lines about refused arguments have {name},
    {option}, {key}, {s}, {value}, {choices}, {quoted}, {similar} and {usage} instead.

    when: Printed only if all of these match: the kind of turn, the problem with the session, the backend failure,
        whether a request was sent again, whether the model is the one that no release knows, whether another option is
        similar, whether a tool did its work, the options.
    unless: Printed only if none of these matches.
    """

    RULE: ClassVar[SchemaRule] = either(has("stdout"), ("stdout",), ("stderr",))

    stdout: str | Mapping[str, Any] | None = None
    stderr: str | Mapping[str, Any] | None = None
    when: Facts = ()
    unless: Facts = ()


class Ending(Struct, frozen=True):
    """How a simulated engine fails.

    exit_code: `status`: the HTTP status modulo 256, or 1 without one.
    """

    exit_code: ExitCode | Literal["status"]
    lines: tuple[Line, ...] = ()


class QueryAnswer(Ending, frozen=True):
    """What a command that runs no turn prints.

    since: The first release that is known to print it. Absent: every release does.
    sessions: Printed instead if there are sessions of the working directory: {count}.
    session: Printed then for each of them, the oldest first: {number}, {handle}, and {title}, its first prompt.
    """

    since: Release | None = None
    sessions: tuple[Line, ...] = ()
    session: tuple[Line, ...] = ()


class RequiredOption(Struct, frozen=True):
    """An option without which an engine runs no turn.

    beside: The options with which it is required, also in a process for several turns. Absent: it always is.
    unless_inside: It isn't required if the working directory, or one above it, has a file or folder of this name.
    unless_env: It isn't required if these variables are set so.
    """

    option: Flag
    refusal: Ending
    beside: Texts = ()
    unless_inside: Text = ""
    unless_env: Mapping[Variable, str] = field(default_factory=dict)


class ListOutput(Struct, frozen=True):
    """An output that is one JSON list: the options that ask for it, and the output mode whose records it has."""

    options: Texts
    records: Name


class ArgumentSyntax(Struct, frozen=True):
    """How the real CLI reads its arguments, as far as the contract doesn't say.

    options: Options as help pages show them, such as `-i, --image <FILE...>`. <X> is a value, [X] one that may be
        missing, <X...> several, <X>... a value of an option that may be repeated. Options of the contract are always
        known. Naming them here adds spellings, and the name of their value.
    spellings: Another spelling of an option or a command -> the usual one.
    commands: Commands and options of the release that run no turn, and that the simulation doesn't play.
    queries: Commands, with words that follow, and options that run no turn -> what is printed, and the exit code.
    choices: Option -> its possible values.
    patterns: Option -> the form of its values.
    not_before: Command -> options that are unknown before it.
    not_after: Command -> options that are unknown after it.
    repeated: What a second value of an option does.
    no_value: What an option without its value does: it is refused, or has an empty value.
    dashes: A value may begin with a dash.
    attached: `-mVALUE` is `-m VALUE`.
    camel_case: `--outputFormat` is `--output-format`.
    words: What several words of a prompt are: refused, joined by spaces, or ignored after the first one. `none`: even a
        single word is refused.
    spaced: How {argument}, a word with a space in it, reaches the model.
    both: The prompt if it is passed as {argument} and on {stdin}. Absent: standard input is ignored.
    input_wait: How many milliseconds an engine with a prompt as argument waits for standard input. Absent: it waits
        without a limit if a deviation of `stdin.open` says so, and else not at all.
    incidental: Options of the contract's start that have no effect on the form of the output.
    working_directory, newest, new_session, settings, prompt_file, answer_file, existing_file: The options that choose a
        working directory, resume the newest session, choose the id of a new one, set `key=value`, name a file with the
        prompt or for the answer, and name a file that must exist.
    by_order: Values of the option that resumes a session which are no ids: a number is its place among the sessions of
        the directory, from 1 for the oldest on, and any other value chooses the newest one.
    unkept: The option with which a session is not saved.
    no_settings: The option that makes the engine ignore the settings of the user.
    forgotten: Options that hold only for the turn that names them -> the setting that says the same, or nothing.
    fork: The option with which a resumed turn goes on in a new session, which begins with what the resumed one holds.
    harmless: Options that change neither sessions nor approval nor the form of the output. One of `options` that is
        neither among these nor known to the contract or the simulation otherwise is not simulated.
    unplayed: Options of the release that are not simulated, besides those. These and the following also come from the
        help pages in the engine's history.
    lacking: Command, empty for none -> options that the release lacks there.
    untested: Options and commands that the release may have: nobody has tried.
    as_list: The options with which the output is a list of all records of an output mode.
    required: Options without which no turn runs.
    usage: Command -> how help pages describe its arguments: {usage}.
    refusals: What is wrong with the arguments -> how they are refused. Absent: as `usage` says.
    """

    options: Texts = ()
    spellings: Mapping[Text, Text] = field(default_factory=dict)
    commands: Texts = ()
    queries: Mapping[Text, QueryAnswer] = field(default_factory=dict)
    choices: Mapping[Flag, Texts] = field(default_factory=dict)
    patterns: Mapping[Flag, Regex] = field(default_factory=dict)
    not_before: Mapping[Text, Texts] = field(default_factory=dict)
    not_after: Mapping[Text, Texts] = field(default_factory=dict)
    repeated: Literal["last", "refused"] = "last"
    no_value: Literal["refused", "empty"] = "refused"
    dashes: bool = False
    attached: bool = False
    camel_case: bool = False
    words: Literal["refused", "joined", "first", "none"] = "refused"
    spaced: Text = "{argument}"
    both: Text = ""
    input_wait: Annotated[int, Meta(ge=1)] | None = None
    working_directory: Flag | None = None
    incidental: Texts = ()
    newest: Flag | None = None
    by_order: Regex | None = None
    new_session: Flag | None = None
    settings: Flag | None = None
    prompt_file: Flag | None = None
    answer_file: Flag | None = None
    existing_file: Flag | None = None
    unkept: Flag | None = None
    no_settings: Flag | None = None
    forgotten: Mapping[Flag, str] = field(default_factory=dict)
    fork: Flag | None = None
    harmless: Texts = ()
    unplayed: Texts = ()
    lacking: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    untested: Texts = ()
    as_list: ListOutput | None = None
    required: tuple[RequiredOption, ...] = ()
    usage: Mapping[str, Text] = field(default_factory=dict)
    refusals: Annotated[Mapping[str, Ending], keys(*REFUSALS)] = field(default_factory=dict)


class StickySimulation(Struct, frozen=True):
    """How the sticky process of this engine differs from others with the same transport.

    starts_in: The session mode at the start. Absent: that of mode interactive.
    denies: Session modes in which it refuses every action, and goes on.
    modes: How to set a session mode: as an option of the session, by a separate request that an update confirms, or by
        one whose response confirms it (which then also holds for the model).
    after_refusal: Whether the agent answers after a refused action, or the turn ends without text.
    approval_env: The variables of mode interactive that make it ask, in whatever mode the session is. Absent: all of
        them are needed, in the contract's mode; empty: only that mode is.
    lets_act: Found in everything that a client sent if that lets it act without asking.
    makes_ask: Found there if that outranks the settings in files, and what it does by itself. Absent: nobody knows, so
        neither is held against a client.
    acp: Its messages in the Agent Client Protocol. Absent: usual ones.
    app_server: Its messages as an app server. Absent: only what every release sends.
    stream_json: Its messages as JSON lines, if it can be started for them.
    service: Its messages as a service for many sessions, if it can be started as one.
    refused: Dotted path into the reply to a refused command -> its value (json_commands).
    """

    starts_in: Text | None = None
    denies: Texts = ()
    modes: Literal["option", "request", "answer"] = "request"
    after_refusal: Literal["answers", "ends"] = "answers"
    approval_env: Texts | None = None
    lets_act: Regex | None = None
    makes_ask: Regex | None = None
    acp: AcpSimulation = AcpSimulation()
    app_server: AppServerSimulation = AppServerSimulation()
    stream_json: StreamJsonSimulation | None = None
    service: ServiceSimulation | None = None
    refused: Match = field(default_factory=dict)


class SimulatedOutput(Struct, frozen=True):
    """What a simulated engine prints in another output mode of its contract: keys of the simulation that differ."""

    RULE: ClassVar[SchemaRule] = {"minProperties": 1}

    answered: tuple[Line, ...] | UnsetType = UNSET
    failed: Ending | UnsetType = UNSET
    nonexistent_id: Ending | UnsetType = UNSET
    started: tuple[Line, ...] | UnsetType = UNSET
    called: tuple[Line, ...] | UnsetType = UNSET
    retrying: tuple[Line, ...] | UnsetType = UNSET
    stopping: Annotated[Mapping[str, tuple[Line, ...]], keys(*SIGNALS)] | UnsetType = UNSET


class ApprovalFile(Struct, frozen=True):
    """Settings that let the engine act without asking: where they are, and what is found there then.

    path: A file, in which `*` stands for any name, or a variable. Slots are {work}, {HOME}, the contract's locations of
        the store, variables of the environment, and the values of options, such as {--agent}.
    over: Another one, whose settings replace those of `path`. Its lines come first.
    found: TOML and JSON are read as sorted lines such as `table.key = "value"` or `list.0.key = 1`, other files as
        they are. It ends in the line that is to be named. {work} is the working directory, {root} that of its
        repository if it is in one, or else the same; values of options are slots, too.
    unless: The option that outranks the settings.
    outranks: Nothing else outranks them: neither the option that ignores the user's settings, nor a client of a process
        for several turns.
    """

    path: Text
    found: Regex
    over: Text = ""
    unless: Flag | None = None
    outranks: bool = False


class SettingsLayer(Struct, frozen=True):
    """One of the settings that an engine merges.

    path: As in `ApprovalFile`. Of a Markdown file, the settings are at its beginning, between two lines `---`.
    below: The key below which they stand; {stem} is the file's name without its suffix. Absent: they name it.
    above: Those in the directories above, up to that of the repository, are merged, too: before or after them.
    unless: The variable that keeps it from being read if it is 1 or true.
    """

    path: Text
    below: Text = ""
    above: Literal["before", "after"] | None = None
    unless: Variable | None = None


class MergedSettings(Struct, frozen=True):
    """Whether an engine that acts without asking by itself asks: as the settings say that it merges.

    layers: The settings, in order: a value replaces an earlier one in its place, and a new key comes after the others.
    usual: Slot -> its value where neither the environment nor an option gives one.
    set_by: Slot -> the key of the settings that gives its value, unless an option does.
    whole: Keys whose value, if it is a text, is that of `*` in them.
    decide: What it may do -> patterns of the keys that decide about it, the weakest first. Of the strongest that are
        there, the last one decides: `allow` and true let it act, as it does without any.
    """

    layers: tuple[SettingsLayer, ...]
    decide: Mapping[Name, tuple[Regex, ...]]
    usual: Mapping[Text, Text] = field(default_factory=dict)
    set_by: Mapping[Text, Text] = field(default_factory=dict)
    whole: Texts = ()


class DocumentForm(Struct, frozen=True):
    """How one JSON document is printed.

    spread: Over many lines. False: on one line.
    ends_line: A line break follows.
    """

    spread: bool = True
    ends_line: bool = False


class Simulation(Struct, frozen=True):
    """What a simulated engine prints. Its behaviour follows from its contract.

    version: Printed when asked for its version. {version} is the release.
    handle: The form of a new session id, with slots such as {hex:8}, {alnum:14} and {uuid}, and {number}, which
        counts the sessions of a home from 1.
    document: The form of a stream that is one JSON document.
    escapes: Matches each character that it escapes in JSON without need.
    answered: Printed at the end of a successful turn: {text}.
    failed: How a turn with a failing backend ends: {error}, {status}.
    nonexistent_id: How it refuses to resume: {handle}. Null: it starts a session with that id instead.
    elsewhere: How it refuses to resume a session of another directory: {session_cwd}. Absent: as `nonexistent_id` says.
    usage: How it rejects its arguments, unless `arguments` says so: {error}.
    arguments: How it reads its arguments.
    started: Printed before the request to the model.
    first_response: Printed once, when the model has answered or failed for good, before anything else.
    called: Printed for each tool that the model calls: {tool}, {call_id}, {arguments}, {subject}, and {call}, its
        number from 0.
    retries: Backend failure (such as 429) -> how often it sends the request again.
    retrying: Printed before each of these retries: {attempt}. Without any, printed once when the model backend fails.
    unanswered: Printed where a failing backend looks like a success.
    ids: Slot -> the form of an id that is generated once per turn.
    system_prompt: The system prompt about the approval in force, by mode.
    approval_files: Settings that let the engine act without asking.
    asks_as_set: Where the engine acts without asking by itself: the settings that decide whether it asks.
    hangs: Backend failures (such as 429) after which it never exits, in addition to those that a deviation declares.
    signals: Signal -> exit code, or null where the signal is ignored. Absent: the signal kills.
    sticky_signals: The same for a sticky process. Absent: as for a turn.
    stopping: Signal -> printed before the signal ends a turn.
    outputs: Output mode of the contract -> what differs there.
    """

    version: Text
    handle: Text
    answered: tuple[Line, ...]
    failed: Ending
    nonexistent_id: Ending | None
    usage: Ending
    elsewhere: Ending | None = None
    document: DocumentForm = DocumentForm()
    escapes: Regex | None = None
    arguments: ArgumentSyntax = ArgumentSyntax()
    started: tuple[Line, ...] = ()
    first_response: tuple[Line, ...] = ()
    called: tuple[Line, ...] = ()
    retries: Mapping[Text, Annotated[int, Meta(ge=1)]] = field(default_factory=dict)
    retrying: tuple[Line, ...] = ()
    unanswered: tuple[Line, ...] = ()
    ids: Mapping[str, Text] = field(default_factory=dict)
    system_prompt: Annotated[Mapping[str, Text], keys("auto", "interactive")] = field(default_factory=dict)
    approval_files: tuple[ApprovalFile, ...] = ()
    asks_as_set: MergedSettings | None = None
    hangs: Texts = ()
    signals: Annotated[Mapping[str, ExitCode | None], keys(*SIGNALS)] = field(default_factory=dict)
    sticky_signals: Annotated[Mapping[str, ExitCode | None], keys(*SIGNALS)] | None = None
    stopping: Annotated[Mapping[str, tuple[Line, ...]], keys(*SIGNALS)] = field(default_factory=dict)
    sticky: StickySimulation = StickySimulation()
    outputs: Mapping[Name, SimulatedOutput] = field(default_factory=dict)

    def in_output(self, name: str) -> "Simulation":
        """Return the simulation of an output mode; that of the default one is the simulation itself."""
        differs = structs.asdict(self.outputs[name]) if name in self.outputs else {}
        return structs.replace(self, **{key: value for key, value in differs.items() if value is not UNSET})
