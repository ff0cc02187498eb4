"""What a contract says of one engine at one release, as values (shapes as in `schema/engine.json`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

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
class Hermetic:
    """What makes an engine talk to the stub model backend and to nothing else."""

    env: Mapping[str, str]
    files: tuple[SetupFile, ...]
    model: str
    options: tuple[str, ...] = ()
    egress: tuple[str, ...] = ()


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

    def stream(self, name: Stream) -> Framed:
        """Give the framing of one stream."""
        return self.streams.stdout if name == "stdout" else self.streams.stderr
