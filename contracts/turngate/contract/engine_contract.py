"""What a contract says about one engine at one release, as values.

`schema/engine.json` is generated from these structs, with descriptions from their docstrings.
"""

from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr, replace

from turngate.contract.hermetic import Hermetic
from turngate.contract.home_and_workspace import (
    ApprovalSetting,
    Canary,
    CommandSandbox,
    CopiedSettings,
    InstructionFile,
    OngoingCall,
    OutputSetting,
    QuestionCall,
    Redirect,
    ToolUse,
    UnsafeSetting,
)
from turngate.contract.launch import (
    ApprovalSign,
    Artifacts,
    AutoFlag,
    Environment,
    FileMark,
    Guards,
    Help,
    Launch,
    Listing,
    LostTools,
    Option,
    ResumeProbe,
    SessionStore,
    Sticky,
    Stream,
    ToolSearch,
    TypeFile,
)
from turngate.contract.values import (
    NOT_EMPTY,
    FileName,
    Match,
    Name,
    NpmName,
    OnlyTrue,
    PyPiName,
    RecordPath,
    Regex,
    RelativePath,
    SchemaRule,
    Strings,
    Text,
    Texts,
    either,
    has,
    matching,
)
from turngate.errors import ContractError, UsageError
from turngate.model import EngineReportKind, HandleType

# a file must list some, but possibly none for a given release
SOME = Meta(extra_json_schema={"minItems": 1})
IdRecord = Literal["first", "last", "every", "only"]


class Lifecycle(Struct, frozen=True):
    """Whether new releases still appear.

    status: sealed: the vendor withdrew the engine, so there will be no new recordings.
    """

    status: Literal["active", "deprecated", "sealed"] = "active"
    note: Text = ""


class Npm(Struct, frozen=True):
    """Where npm has the releases.

    executables: Paths below the install root. The first that exists is used. {platform} is Node's `platform-arch`.
    """

    package: NpmName
    executables: Annotated[tuple[RelativePath, ...], NOT_EMPTY]


class PyPi(Struct, frozen=True):
    """Where PyPI has the releases, as wheels.

    The executable is the script of the engine's name, or a program of that name in a wheel.
    """

    package: PyPiName


class Published(Struct, frozen=True):
    """Where the releases are published."""

    npm: Npm | None = None
    pypi: PyPi | None = None


class VersionQuery(Struct, frozen=True):
    """How to ask the release for its version.

    argv: Arguments after the executable.
    pattern: Must match the whole stripped text and have a group named `version`.
    other_stream: Other releases print it on the other stream, so both count until the version is known.
    """

    argv: Strings
    pattern: Regex
    stream: Stream = "stdout"
    other_stream: OnlyTrue = False


class TextRecord(Struct, frozen=True):
    """Whole lines of a plain text that are a record, with `name` and the named groups of `pattern` as its fields.

    at: first: the first lines of the stream that match, so text that follows can't imitate them; last: the lines that
        end the stream, so text before them can't.
    pattern: Must match whole lines. It may span several.
    """

    name: Name
    at: Literal["first", "last"]
    pattern: Regex


class Framed(Struct, frozen=True):
    """How a stream is split into records.

    framing: ndjson: one JSON object per line; json_document: one JSON object over one or many lines, with whole lines
        of noise around it (a list of objects is read, too, and reported); tagged_block: one JSON object between `<tag>`
        and `</tag>`, each on its own line, at the end of the stream; text: plain text, without the lines of noise at
        the start of the stream.
    noise: Patterns of whole lines that are known and carry no information.
    records: Lines of a plain text that are records, and don't belong to the text.
    """

    RULE: ClassVar[SchemaRule] = {
        "allOf": [
            either(has("framing", "tagged_block"), ("tag",), ()),
            {"if": has("records"), "then": {"properties": {"framing": {"const": "text"}}}},
        ]
    }

    framing: Literal["ndjson", "json_document", "tagged_block", "text"]
    tag: Text = ""
    noise: tuple[Regex, ...] = ()
    records: Annotated[tuple[TextRecord, ...], NOT_EMPTY] = ()


class Streams(Struct, frozen=True):
    """How stdout and stderr are framed.

    stdout_file: A turn gets a file as stdout instead of a pipe, because the engine exits before a pipe has taken all
        that it prints. It is read while it grows.
    """

    stdout: Framed
    stderr: Framed = Framed("text")
    stdout_file: OnlyTrue = False


class Events(Struct, frozen=True, kw_only=True):
    """All known kinds of records.

    names: Values of `field`, or the top-level keys of a record where `field` is absent.
    """

    stream: Stream = "stdout"
    names: Annotated[Texts, NOT_EMPTY]
    field: RecordPath | None = None


class HandlePlace(Struct, frozen=True, kw_only=True):
    """Where the session id is and what it looks like.

    handle_type: What a resume takes: `session_id`, as every engine so far. `session_file` is for an engine that resumes
        the path of a file which it printed, `opaque` for one that resumes a token which is neither.
    record: first: in the first record that matches, before the turn's end; last: in the last record; every: in each
        record, always the same; only: in the only record that matches.
    match: Dotted path into the record -> its required value. Others may precede it, such as those of a user's hooks.
    shape: Pattern of the whole value.
    nonexistent_id: A value of the right shape that belongs to no session.
    """

    handle_type: HandleType = "session_id"
    stream: Stream = "stdout"
    record: IdRecord
    field: RecordPath
    shape: Regex
    nonexistent_id: Text
    match: Annotated[Match, NOT_EMPTY] | None = None


class End(Struct, frozen=True):
    """The record that proves that the turn succeeded.

    match: Dotted path into the record -> its required value.
    followed_by: The kinds of records that may come after it. They carry neither text nor a failure.
    """

    stream: Stream = "stdout"
    match: Annotated[Match, NOT_EMPTY] | None = None
    followed_by: Annotated[Texts, NOT_EMPTY] = ()


class FailureSign(Struct, frozen=True):
    """A record that reports that the turn failed.

    match: Dotted path into the record -> its required value.
    has: The record counts if this path is present.
    message: Path of the text with the reason.
    """

    stream: Stream
    match: Annotated[Match, NOT_EMPTY] | None = None
    has: RecordPath | None = None
    message: RecordPath | None = None


class Final(Struct, frozen=True):
    """Where the agent's final text is. In a stream framed as text it is the whole text.

    match: Dotted path into the record -> its required value.
    group: Path of a value that is the same for all texts of one answer. The texts of the last answer are joined.
        Absent: only the last text counts.
    begins_after: Records after which another answer begins, although the value is the same.
    """

    stream: Stream = "stdout"
    match: Annotated[Match, NOT_EMPTY] | None = None
    field: RecordPath | None = None
    group: RecordPath | None = None
    begins_after: Annotated[Match, NOT_EMPTY] | None = None


class ReportSign(Struct, frozen=True):
    """A record with something that the engine reports beside the answer, and that neither is it nor ends the turn.

    kind: denied: a tool that the agent was not allowed to use; error: an error after which the turn went on; answer: a
        text of the agent, which counts if the final record has none.
    match: Dotted path into the record -> its required value.
    field: Path of the text, or of a list.
    item: Path of the text in each object of that list.
    """

    kind: EngineReportKind
    stream: Stream
    field: RecordPath
    match: Annotated[Match, NOT_EMPTY] | None = None
    item: RecordPath | None = None


class IdPlace(Struct, frozen=True, kw_only=True):
    """Where the session id is in another output mode; its form is the same in all of them.

    record: As in `handle`.
    match: Dotted path into the record -> its required value.
    """

    stream: Stream = "stdout"
    record: IdRecord
    field: RecordPath
    match: Annotated[Match, NOT_EMPTY] | None = None


class OutputMode(Struct, frozen=True):
    """Another form of the engine's output, which arguments choose. Its sections replace those of the default one.

    replaces: Arguments of `launch.start` and `launch.resume` that choose the default output mode.
    arguments: What takes their place.
    """

    name: Name
    replaces: Annotated[Strings, NOT_EMPTY]
    arguments: Strings
    streams: Streams
    events: Events
    handle: IdPlace
    end: End
    final: Final
    failures: tuple[FailureSign, ...] = ()
    reports: tuple[ReportSign, ...] = ()


class Volatile(Struct, frozen=True):
    """Text that differs from run to run, such as ids, times and paths, and its replacement in recordings.

    pattern: The volatile text, or a group `value` that contains it.
    placeholder: Its replacement. A run of # becomes a number of that width, counting up from 1. Equal texts get equal
        numbers.
    """

    pattern: Regex
    placeholder: Text


class Deviation(Struct, frozen=True):
    """A clause that a release is known to violate, with the symptom that is excused.

    symptom: What the release does, in a word of the clause.
    action: What an orchestrator must do.
    flaky: It occurs only sometimes, so a run without it proves nothing.
    """

    clause: Text
    symptom: Name
    action: Text
    flaky: OnlyTrue = False


class EngineContract(Struct, frozen=True, kw_only=True):
    """Everything that an orchestrator relies on in one engine. Each claim names the releases for which it holds.

    A section is one entry, or a list of entries for different releases. The `changes` of an entry list what differs
    from a given release on. A section that is left out, but has a default, is unverified.

    title: How messages call the engine. Absent: by its name.
    contract_version: Increased with every change to a claim.
    executable: The command's name on PATH. Absent: the engine's name.
    published: Absent: no registry has it.
    version: Absent: `--version` prints it, and no other number with dots.
    help: Absent: `--help` names the options that the contract passes.
    streams: Absent: stdout is framed as ndjson.
    environment: Absent: passes the variables of `hermetic.env` that name no folder of the sandbox, and has the
        locations of `store`.
    resume_probe: Absent: nothing does.
    sticky: Absent: each turn has a process of its own.
    options: Absent: those that `launch` passes by mode, and those that choose a model.
    auto_flags: Absent: the options of `launch.auto`.
    installed_by: Other names by which a project's files install it: a package that turngate doesn't install, a feature
        of a dev container, an action, the address of a script.
    additional: Left out where pinned releases are installed without naming them.

    >>> turngate.load_contract("codex", "0.169.0").version
    '0.169.0'
    """

    engine: Name
    title: Text = ""
    vendor: Text = ""
    contract_version: Annotated[str, matching(r"^[0-9]+\.[0-9]+$")] = "0.1"
    lifecycle: Lifecycle = Lifecycle()
    executable: FileName = ""
    published: Published = Published()
    version_query: VersionQuery = field(name="version")
    help: Help = Help()
    launch: Launch
    streams: Streams
    events: Events
    handle: HandlePlace
    end: End
    final: Final
    store: SessionStore | None = None
    environment: Environment
    resume_probe: ResumeProbe
    hermetic: Hermetic
    sticky: Sticky = Sticky()
    options: tuple[Option, ...] = ()
    auto_flags: Annotated[tuple[AutoFlag, ...], SOME]
    failures: tuple[FailureSign, ...] = ()
    reports: Annotated[tuple[ReportSign, ...], SOME] = ()
    outputs: tuple[OutputMode, ...] = ()
    additional: OnlyTrue = False
    installed_by: Annotated[Texts, NOT_EMPTY] = ()
    deviations: tuple[Deviation, ...] = ()
    volatile: tuple[Volatile, ...] = ()
    approval_signs: Annotated[tuple[ApprovalSign, ...], SOME] = ()
    unavailable_tools: Annotated[tuple[LostTools, ...], SOME] = ()
    ongoing_calls: Annotated[tuple[OngoingCall, ...], SOME] = ()
    question_calls: Annotated[tuple[QuestionCall, ...], SOME] = ()
    command_sandboxes: Annotated[tuple[CommandSandbox, ...], SOME] = ()
    canaries: Annotated[tuple[Canary, ...], SOME] = ()
    guards: Guards = Guards()
    copied_settings: CopiedSettings = CopiedSettings()
    artifacts: Artifacts | None = None
    tool_search: ToolSearch | None = None
    file_marks: Annotated[tuple[FileMark, ...], SOME] = ()
    instruction_files: Annotated[tuple[InstructionFile, ...], SOME] = ()
    approval_settings: Annotated[tuple[ApprovalSetting, ...], SOME] = ()
    unsafe_settings: Annotated[tuple[UnsafeSetting, ...], SOME] = ()
    redirects: Annotated[tuple[Redirect, ...], SOME] = ()
    output_settings: Annotated[tuple[OutputSetting, ...], SOME] = ()
    listings: Annotated[tuple[Listing, ...], SOME] = ()
    type_files: Annotated[tuple[TypeFile, ...], SOME] = ()
    version: str | None = field(default=None, name="release")
    unverified: Strings = ()
    some_deviate: Strings = ()  # the clauses from which any release deviates, if none is named

    def __post_init__(self) -> None:
        force_setattr(self, "title", self.title or self.engine)
        force_setattr(self, "executable", self.executable or self.engine)
        force_setattr(self, "help", self.help.covering(self.launch_options))

    def __repr__(self) -> str:
        """Name the contract and its release; the whole text has thousands of words."""
        return f"EngineContract({self.engine!r}, {self.version!r}, contract_version={self.contract_version!r})"

    @property
    def npm(self) -> Npm | None:
        """Where npm has the releases."""
        return self.published.npm

    @property
    def packages(self) -> frozenset[str]:
        """The names of the packages that install it, also of those that turngate doesn't install."""
        published = (self.published.npm, self.published.pypi)
        others = (name for name in self.installed_by if name.startswith("@") or "/" not in name)
        return frozenset({source.package for source in published if source}.union(others))

    @property
    def install_command(self) -> str | None:
        """The command that installs the newest release for a user; None if no registry has it."""
        if self.published.npm:
            return f"npm install --global {self.published.npm.package}"
        return f"pip install {self.published.pypi.package}" if self.published.pypi else None

    def in_output(self, name: str) -> "EngineContract":
        """Return the contract for an output mode; the default one has the name `launch.output`.

        UsageError: there is no such output mode. All else applies to it as to the default one.

        >>> turngate.load_contract("claude").in_output("stream-json").streams.stdout.framing
        'ndjson'
        """
        if name == self.launch.output:
            return self
        mode = next((mode for mode in self.outputs if mode.name == name), None)
        if mode is None:
            known = ", ".join(filter(None, (self.launch.output, *(mode.name for mode in self.outputs))))
            hint = f"choose one of {known}" if self.outputs else "its contract describes only one"
            raise UsageError(f"{self.engine} {self.version or ''}".rstrip() + f" has no output mode {name!r}", hint)
        start, resume = (_replaced(template, mode) for template in (self.launch.start, self.launch.resume))
        place = mode.handle
        return replace(
            self,
            launch=replace(self.launch, start=start, resume=resume, output=name),
            handle=replace(self.handle, stream=place.stream, record=place.record, field=place.field, match=place.match),
            **{name: getattr(mode, name) for name in ("streams", "events", "end", "final", "failures", "reports")},
        )

    @property
    def launch_options(self) -> tuple[str, ...]:
        """The options of every argv that launch, guards and artifacts of the contract describe, without values."""
        launch, artifacts = self.launch, self.artifacts.options if self.artifacts else ()
        prompts = [token for channel in launch.prompt for token in channel.tokens]
        tokens = (*launch.start, *launch.resume, *launch.auto, *launch.interactive, *launch.model, *prompts)
        flags = [token.partition("=")[0] for token in (*tokens, *self.guards.options, *artifacts)]
        return tuple(dict.fromkeys(flag for flag in flags if flag.startswith("-") and flag.strip("-")))

    @property
    def asked_model(self) -> str | None:
        """The model that the turns of a probe ask for; None: they take the one that the release takes by itself."""
        return None if self.hermetic.default_model or not self.launch.model else self.hermetic.model

    @property
    def is_guarded(self) -> bool:
        """Whether the engine keeps its promises only for who passes what the contract adds to start and resume."""
        launch = self.launch
        return self.guards != Guards() or bool(launch.interactive or launch.interactive_env)

    def call_of(self, tool: str) -> ToolUse | None:
        """Return the call that a probe makes of a tool, by the tool's name; None if it makes none."""
        own = (setting.tool for setting in self.approval_settings)
        every = (self.hermetic.tool_call, self.hermetic.command_call, *own)
        return next((call for call in every if call and call.name == tool), None)

    @property
    def instructions(self) -> InstructionFile | None:
        """The first instruction file of a workspace that has a path."""
        return next((file for file in self.instruction_files if file.path), None)

    def stream(self, name: Stream) -> Framed:
        """Return the framing of one stream."""
        return self.streams.stdout if name == "stdout" else self.streams.stderr


def _replaced(template: Strings, mode: OutputMode) -> Strings:
    """Return a template with the arguments of an output mode; ContractError if it lacks those of the default one."""
    size = len(mode.replaces)
    for at in range(len(template) - size + 1):
        if template[at : at + size] == mode.replaces:
            return (*template[:at], *mode.arguments, *template[at + size :])
    raise ContractError(f"the output mode {mode.name} replaces arguments that {' '.join(template)} doesn't have")
