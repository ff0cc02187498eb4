"""What a contract says of one engine at one release, as values (shapes as in `schema/engine.json`).

They are structs of msgspec, which makes thirty classes in the time in which dataclasses makes one.
"""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct, field

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


class Refusal(Struct, frozen=True):
    """Prompts that a channel can't carry unaltered, and why."""

    pattern: str
    why: str


class PromptChannel(Struct, frozen=True):
    """One way in which a prompt travels; `max_bytes` bounds its UTF-8."""

    via: Literal["argument", "stdin"]
    tokens: tuple[str, ...]
    max_bytes: int | None = None
    refuses: tuple[Refusal, ...] = ()


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
    dead: str
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


class Store(Struct, frozen=True):
    """Where sessions lie, which variables decide it, and whether they belong to a directory."""

    locations: Mapping[str, str]
    check: StoreCheck
    tied_to_cwd: bool


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
    leaves: str = "touched.txt"


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


class ModeQuery(Struct, frozen=True):
    """A command that prints the configuration in force; below each `key` only `values` may stand."""

    argv: tuple[str, ...]
    key: str
    values: tuple[str, ...]


class Stance(Struct, frozen=True):
    """What makes a resident process ask before it acts, or act alone, and what shows that it does.

    `env` and `options` stand at its start; `session` are fields of the request that opens a session, `holds` are
    fields of the answer with the values that they must have; `mode` is the session mode that is set and confirmed.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    session: Mapping[str, str] = field(default_factory=dict)
    holds: Mapping[str, str] = field(default_factory=dict)
    mode: str | None = None
    query: ModeQuery | None = None


class Once(Struct, frozen=True):
    """The transport's words for allowing and refusing one action, and no more than that one."""

    allow: str
    deny: str


class Resident(Struct, frozen=True):
    """How one process is kept over several turns, and which of its requests ask for permission.

    `options` are the callers' options that `argv` takes; a model is an `argument` or asked for of the `session`.
    `same_id` says whether a headless resume takes the transport's session id, `own_store` whether the process keeps
    its sessions elsewhere than headless turns do.
    """

    transport: Literal["acp", "app_server", "stream_json", "none"]
    argv: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    model: Literal["argument", "session"] = "argument"
    interactive: Stance | None = None
    auto: Stance | None = None
    asks: tuple[str, ...] = ()
    once: Once | None = None
    same_id: bool = False
    own_store: bool = False


class Deviation(Struct, frozen=True):
    """A clause that the release is known to miss, or does `by_chance`, and what an orchestrator must do about it."""

    clause: str
    symptom: str
    compensation: str
    by_chance: bool = False


class Line(Struct, frozen=True):
    """Something that a simulated engine prints on one stream: text, or a record with slots.

    It is printed if all of `when` holds: `start`, `resume`, `auto`, `interactive`, what is wrong with the session
    (`dead`, `malformed`, `elsewhere`), or how the model backend failed (an HTTP status, `away`, `cut`).
    """

    stdout: str | Mapping[str, Any] | None = None
    stderr: str | Mapping[str, Any] | None = None
    when: tuple[str, ...] = ()


class Ending(Struct, frozen=True):
    """How a simulated engine ends badly; exit code `status` is the HTTP status modulo 256, or 1 without one."""

    exit_code: int | Literal["status"]
    lines: tuple[Line, ...] = ()


class StickySimulation(Struct, frozen=True):
    """How a simulated process that is kept over several turns differs from others on its transport.

    `starts_in` is the session mode that it starts in (None: that of mode interactive); modes are set by an `option`
    of the session, by a `request` of their own, or by one whose `answer` confirms them, as it then does for the model;
    after a refused action the agent `answers`, or the turn `ends`.
    """

    starts_in: str | None = None
    modes: Literal["option", "request", "answer"] = "request"
    after_refusal: Literal["answers", "ends"] = "answers"


class Simulation(Struct, frozen=True):
    """What a simulated engine prints, and when; all else follows from the other claims.

    `started` comes before the model is asked, `called` with each tool call, `answered` at the end of a good turn;
    `retrying` when a backend fails, `unanswered` when that passes for a success. `ids` are forms of ids, made once
    a turn; `system_prompt` tells the model of the approval in force; `hangs` are failing backends beside the
    declared deviations at which it hangs; `signals` are exit codes by signal, None where it is ignored, absent where
    it kills.
    """

    version: str
    handle: str
    answered: tuple[Line, ...]
    failed: Ending
    nonexistent_id: Ending
    usage: Ending
    started: tuple[Line, ...] = ()
    called: tuple[Line, ...] = ()
    retrying: tuple[Line, ...] = ()
    unanswered: tuple[Line, ...] = ()
    ids: Mapping[str, str] = field(default_factory=dict)
    system_prompt: Mapping[str, str] = field(default_factory=dict)
    hangs: tuple[str, ...] = ()
    signals: Mapping[str, int | None] = field(default_factory=dict)
    sticky: StickySimulation = StickySimulation()


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
    store: Store | None
    environment: Environment
    resume_probe: ResumeProbe
    hermetic: Hermetic
    resident: Resident
    deviations: tuple[Deviation, ...]
    unverified: tuple[str, ...]
    volatile: tuple[Volatile, ...] = ()
    approval_signs: tuple[ApprovalSign, ...] = ()
    tools_lost: tuple[LostTools, ...] = ()

    def stream(self, name: Stream) -> Framed:
        """Give the framing of one stream."""
        return self.streams.stdout if name == "stdout" else self.streams.stderr
