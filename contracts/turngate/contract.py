"""What a contract says of one engine at one release, as values (shapes as in `schema/engine.json`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Stream = Literal["stdout", "stderr"]
Match = Mapping[str, str | int | float | bool | None]


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """Whether releases still appear (`active`, `deprecated`) or the vendor withdrew it (`sealed`)."""

    status: Literal["active", "deprecated", "sealed"]
    note: str = ""


@dataclass(frozen=True, slots=True)
class VersionQuery:
    """How a release says its version; `pattern` names a group `version`."""

    argv: tuple[str, ...]
    pattern: str
    stream: Stream = "stdout"


@dataclass(frozen=True, slots=True)
class HelpPage:
    """A help page, and the words that it must hold."""

    argv: tuple[str, ...]
    names: tuple[str, ...]
    stream: Stream = "stdout"


@dataclass(frozen=True, slots=True)
class Help:
    """Every help page that names what the contract uses."""

    pages: tuple[HelpPage, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Prompts that a channel can't carry unaltered, and why."""

    pattern: str
    why: str


@dataclass(frozen=True, slots=True)
class PromptChannel:
    """One way in which a prompt travels; `max_bytes` bounds its UTF-8."""

    via: Literal["argument", "stdin"]
    tokens: tuple[str, ...]
    max_bytes: int | None = None
    refuses: tuple[Refusal, ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """Templates of the argv after the executable, and what fills them."""

    start: tuple[str, ...]
    resume: tuple[str, ...]
    prompt: tuple[PromptChannel, ...]
    auto: tuple[str, ...]
    model: tuple[str, ...]
    interactive: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """An option that callers may pass, and whether a resume carries it."""

    flag: str
    value: Literal["none", "required", "many"]
    aliases: tuple[str, ...] = ()
    on_resume: Literal["keep", "omit"] = "keep"


@dataclass(frozen=True, slots=True)
class AutoKey:
    """A key of `--config key=value` that widens approval or sandbox unless its value is safe."""

    key: str
    safe_values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AutoFlag:
    """A flag that widens approval or sandbox: always, or unless its value is safe, or by its keys."""

    flag: str
    aliases: tuple[str, ...] = ()
    safe_values: tuple[str, ...] | None = None
    keys: tuple[AutoKey, ...] = ()


@dataclass(frozen=True, slots=True)
class ApprovalSign:
    """What requests to the model show of the approval in force.

    Either `tools` that are offered only by an engine that acts without asking, or a `pattern` that finds a
    `value` in the request, which shows the same unless it is safe.
    """

    tools: tuple[str, ...] = ()
    pattern: str | None = None
    safe_values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Framed:
    """How a stream is cut into records; `noise` are patterns of lines that mean nothing."""

    framing: Literal["ndjson", "json_document", "tagged_block", "text"]
    tag: str = ""
    noise: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Streams:
    """The framing of both streams."""

    stdout: Framed
    stderr: Framed


@dataclass(frozen=True, slots=True)
class Events:
    """Known kinds of records: values of `field`, or top-level keys where there is no field."""

    stream: Stream
    names: tuple[str, ...]
    field: str | None = None


@dataclass(frozen=True, slots=True)
class HandlePlace:
    """Where the session id stands, its shape, and a well-shaped value that belongs to no session."""

    handle_type: str
    stream: Stream
    record: Literal["first", "every", "only"]
    field: str
    shape: str
    dead: str
    match: Match | None = None


@dataclass(frozen=True, slots=True)
class End:
    """The record that proves that a turn ended well."""

    stream: Stream
    match: Match | None = None


@dataclass(frozen=True, slots=True)
class FailureSign:
    """A record that says that the turn failed: it matches, and `has` is present."""

    stream: Stream
    match: Match | None = None
    has: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Final:
    """Where the agent's last text stands; texts with the same value of `group` are one answer."""

    stream: Stream
    match: Match | None = None
    field: str | None = None
    group: str | None = None


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """How to see on disk that a session is there (`glob` or `sqlite`)."""

    kind: Literal["glob", "sqlite"]
    pattern: str = ""
    file: str = ""
    query: str = ""


@dataclass(frozen=True, slots=True)
class Store:
    """Where sessions lie, which variables decide it, and whether they belong to a directory."""

    locations: Mapping[str, str]
    check: StoreCheck
    tied_to_cwd: bool


@dataclass(frozen=True, slots=True)
class SetupFile:
    """A file that a sandbox needs; slots in both fields are filled by the sandbox."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class ToolUse:
    """A tool that acts on files, and arguments with which a model may ask for it."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Hermetic:
    """What makes an engine talk to the stub model backend and to nothing else."""

    env: Mapping[str, str]
    files: tuple[SetupFile, ...]
    model: str
    options: tuple[str, ...] = ()
    egress: tuple[str, ...] = ()
    tool_call: ToolUse | None = None


@dataclass(frozen=True, slots=True)
class Volatile:
    """Text that differs from run to run, and what stands for it in recordings (`#` is a number that counts up)."""

    pattern: str
    placeholder: str


@dataclass(frozen=True, slots=True)
class Resident:
    """How one process is kept over several turns."""

    transport: Literal["acp", "app_server", "stream_json", "lines", "none"]
    argv: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Deviation:
    """A clause that the release is known to miss, and what an orchestrator must do about it."""

    clause: str
    symptom: str
    compensation: str


@dataclass(frozen=True, slots=True)
class Line:
    """Something that a simulated engine prints on one stream: text, or a record with slots.

    It is printed if all of `when` holds: `start`, `resume`, `auto`, `interactive`, what is wrong with the session
    (`dead`, `malformed`, `elsewhere`), or how the model backend failed (an HTTP status, `away`, `cut`).
    """

    stdout: str | Mapping[str, Any] | None = None
    stderr: str | Mapping[str, Any] | None = None
    when: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ending:
    """How a simulated engine ends badly; exit code `status` is the HTTP status modulo 256, or 1 without one."""

    exit_code: int | Literal["status"]
    lines: tuple[Line, ...] = ()


@dataclass(frozen=True, slots=True)
class Simulation:
    """What a simulated engine prints, and when; all else follows from the other claims.

    `started` comes before the model is asked, `called` with each tool call, `answered` at the end of a good turn;
    `retrying` when a backend fails, `unanswered` when that passes for a success. `ids` are forms of ids, made once
    a turn; `told` is what the model is told of the approval in force; `hangs` are failing backends beside the
    declared deviations at which it hangs; `signals` are exit codes by signal, absent where the signal kills.
    """

    version: str
    handle: str
    answered: tuple[Line, ...]
    failed: Ending
    dead: Ending
    usage: Ending
    started: tuple[Line, ...] = ()
    called: tuple[Line, ...] = ()
    retrying: tuple[Line, ...] = ()
    unanswered: tuple[Line, ...] = ()
    ids: Mapping[str, str] = field(default_factory=dict)
    told: Mapping[str, str] = field(default_factory=dict)
    hangs: tuple[str, ...] = ()
    signals: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Npm:
    """Where npm has the releases; `executables` are candidates below the install root."""

    package: str
    executables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EngineContract:
    """All that is relied on of one engine at one version (None: the newest there is)."""

    engine: str
    title: str
    vendor: str
    contract_version: str
    version: str | None
    lifecycle: Lifecycle
    executable: str
    npm: Npm | None
    version_query: VersionQuery
    help: Help
    launch: Launch
    options: tuple[Option, ...]
    auto_flags: tuple[AutoFlag, ...]
    streams: Streams
    events: Events
    handle: HandlePlace
    end: End
    failures: tuple[FailureSign, ...]
    final: Final
    store: Store | None
    hermetic: Hermetic
    resident: Resident
    deviations: tuple[Deviation, ...]
    unverified: tuple[str, ...]
    volatile: tuple[Volatile, ...] = ()
    approval_signs: tuple[ApprovalSign, ...] = ()
    simulation: Simulation | None = None

    def stream(self, name: Stream) -> Framed:
        """Give the framing of one stream."""
        return self.streams.stdout if name == "stdout" else self.streams.stderr
