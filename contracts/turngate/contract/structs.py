"""What a contract says of one engine at one release, as values (shapes as in `schema/engine.json`).

They are structs of msgspec, which makes thirty classes in the time in which dataclasses makes one.
"""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

from turngate.contract.sticky import Sticky

Stream = Literal["stdout", "stderr"]
Match = Mapping[str, str | int | float | bool | None]


class Lifecycle(Struct, frozen=True):
    """Whether releases still appear (`active`, `deprecated`) or the vendor withdrew it (`sealed`)."""

    status: Literal["active", "deprecated", "sealed"]
    note: str = ""


class VersionQuery(Struct, frozen=True):
    """How a release says its version; `pattern` names a group `version`."""

    argv: tuple[str, ...]
    pattern: str
    stream: Stream = "stdout"


class HelpPage(Struct, frozen=True):
    """A help page, and the words that it must hold."""

    argv: tuple[str, ...]
    names: tuple[str, ...]
    stream: Stream = "stdout"


class Help(Struct, frozen=True):
    """Every help page that names what the contract uses."""

    pages: tuple[HelpPage, ...]


class UsageRefusal(Struct, frozen=True):
    """Prompts that a channel can't carry unaltered, and why."""

    pattern: str
    why: str


class PromptChannel(Struct, frozen=True):
    """One way in which a prompt travels; `max_bytes` bounds its UTF-8."""

    via: Literal["argument", "stdin"]
    tokens: tuple[str, ...]
    max_bytes: int | None = None
    refuses: tuple[UsageRefusal, ...] = ()


class Launch(Struct, frozen=True):
    """Templates of the argv after the executable, and what fills them."""

    start: tuple[str, ...]
    resume: tuple[str, ...]
    prompt: tuple[PromptChannel, ...]
    auto: tuple[str, ...]
    model: tuple[str, ...]
    interactive: tuple[str, ...] = ()


class Option(Struct, frozen=True):
    """An option that callers may pass, and whether a resume carries it."""

    flag: str
    value: Literal["none", "required", "many"]
    aliases: tuple[str, ...] = ()
    on_resume: Literal["keep", "omit"] = "keep"


class AutoKey(Struct, frozen=True):
    """A key of `--config key=value` that widens approval or sandbox unless its value is safe."""

    key: str
    safe_values: tuple[str, ...] = ()


class AutoFlag(Struct, frozen=True):
    """A flag that widens approval or sandbox: always, or unless its value is safe, or by its keys."""

    flag: str
    aliases: tuple[str, ...] = ()
    safe_values: tuple[str, ...] | None = None
    keys: tuple[AutoKey, ...] = ()


class ApprovalSign(Struct, frozen=True):
    """What requests to the model show of the approval in force.

    Either `tools` that are offered only by an engine that acts without asking, or a `pattern` that finds a
    `value` in the request, which shows the same unless it is safe.
    """

    tools: tuple[str, ...] = ()
    pattern: str | None = None
    safe_values: tuple[str, ...] = ()


class LostTools(Struct, frozen=True):
    """Tools that a headless interactive turn can't use, and what becomes of them."""

    tools: tuple[str, ...]
    why: str


class Framed(Struct, frozen=True):
    """How a stream is cut into records; `noise` are patterns of lines that mean nothing."""

    framing: Literal["ndjson", "json_document", "tagged_block", "text"]
    tag: str = ""
    noise: tuple[str, ...] = ()


class Streams(Struct, frozen=True):
    """The framing of both streams."""

    stdout: Framed
    stderr: Framed


class Events(Struct, frozen=True):
    """Known kinds of records: values of `field`, or top-level keys where there is no field."""

    stream: Stream
    names: tuple[str, ...]
    field: str | None = None


class HandlePlace(Struct, frozen=True):
    """Where the session id stands, its shape, and a well-shaped value that belongs to no session."""

    handle_type: str
    stream: Stream
    record: Literal["first", "every", "only"]
    field: str
    shape: str
    nonexistent_id: str
    match: Match | None = None


class End(Struct, frozen=True):
    """The record that proves that a turn ended well."""

    stream: Stream
    match: Match | None = None


class FailureSign(Struct, frozen=True):
    """A record that says that the turn failed: it matches, and `has` is present."""

    stream: Stream
    match: Match | None = None
    has: str | None = None
    message: str | None = None


class Final(Struct, frozen=True):
    """Where the agent's last text stands; texts with the same value of `group` are one answer."""

    stream: Stream
    match: Match | None = None
    field: str | None = None
    group: str | None = None


class StoreCheck(Struct, frozen=True):
    """How to see on disk that a session is there (`glob` or `sqlite`)."""

    kind: Literal["glob", "sqlite"]
    pattern: str = ""
    file: str = ""
    query: str = ""


class SessionStore(Struct, frozen=True):
    """Where sessions lie, and which variables decide it."""

    locations: Mapping[str, str]
    check: StoreCheck


class Environment(Struct, frozen=True):
    """Names of variables that an engine gets as they are, and of those that decide where its sessions lie."""

    passed: tuple[str, ...] = field(name="pass")
    locations: tuple[str, ...]


class ResumeProbe(Struct, frozen=True):
    """What decides, before an engine is run, whether its sessions can be resumed.

    `unsupported` says why those of this release can't be; `directory` is where they are kept.
    """

    unsupported: str | None = None
    directory: str | None = None


class SetupFile(Struct, frozen=True):
    """A file that a sandbox needs; slots in both fields are filled by the sandbox."""

    path: str
    content: str


class ToolUse(Struct, frozen=True):
    """A tool that acts on files, arguments with which a model may ask for it, and the file that this leaves."""

    name: str
    arguments: Mapping[str, Any]
    creates_file: str = "touched.txt"


class Hermetic(Struct, frozen=True):
    """What makes an engine talk to the stub model backend and to nothing else.

    `failure_deadline` is in seconds; None means that of the clause.
    """

    env: Mapping[str, str]
    files: tuple[SetupFile, ...]
    model: str
    options: tuple[str, ...] = ()
    egress: tuple[str, ...] = ()
    tool_call: ToolUse | None = None
    failure_deadline: float | None = None


class Volatile(Struct, frozen=True):
    """Text that differs from run to run, and what stands for it in recordings (`#` is a number that counts up)."""

    pattern: str
    placeholder: str


class Deviation(Struct, frozen=True):
    """A clause that the release is known to miss, or does `flaky`, and what an orchestrator must do about it."""

    clause: str
    symptom: str
    compensation: str
    flaky: bool = False


class Npm(Struct, frozen=True):
    """Where npm has the releases; `executables` are candidates below the install root."""

    package: str
    executables: tuple[str, ...]


class EngineContract(Struct, frozen=True):
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
    store: SessionStore | None
    environment: Environment
    resume_probe: ResumeProbe
    hermetic: Hermetic
    sticky: Sticky
    deviations: tuple[Deviation, ...]
    unverified: tuple[str, ...]
    volatile: tuple[Volatile, ...] = ()
    approval_signs: tuple[ApprovalSign, ...] = ()
    tools_lost: tuple[LostTools, ...] = ()

    def stream(self, name: Stream) -> Framed:
        """Return the framing of one stream."""
        return self.streams.stdout if name == "stdout" else self.streams.stderr
