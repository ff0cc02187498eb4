"""What `simulations/<engine>.yaml` says about the protocols of a sticky process: the records of a simulated engine."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, field

from turngate.contract.values import Flag, Strings, Text, Texts, keys

Record: TypeAlias = Mapping[str, Any]
Records: TypeAlias = tuple[Record, ...]
_CALL: Record = {"toolCallId": "{call_id}", "title": "{tool}: {subject}", "kind": "edit", "rawInput": "{input}"}
_ASKED: Record = {**_CALL, "status": "pending"}
_DONE: Record = {"sessionUpdate": "tool_call_update", **_CALL, "status": "completed"}
_FAILED: Record = {**_DONE, "status": "failed"}


class LostSession(Struct, frozen=True):
    """How a process ends whose arguments resume a session that doesn't exist: {handle}.

    records: Messages on stdout.
    stderr: Text on stderr.
    """

    exit_code: Annotated[int, Meta(ge=0, le=255)]
    records: Records = ()
    stderr: str = ""


class StreamJsonSimulation(Struct, frozen=True):
    """The messages of an engine that is started for messages and control requests as JSON lines.

    Slots are {handle}, {cwd}, {model}, {mode}, {version}, {uuid}, {hex:N}, and where they have a meaning {text},
    {error}, {status}, {requests} (to the model, in this turn), {tool}, {call_id}, {input}, {absolute_input}, {subject},
    {path}, {file}, {content}, {result}, {denials} (of this turn). A value that is only a slot takes the slot's type.

    argv: Options that start it, in any order.
    mode: The option that sets the permission mode.
    session: The option that names the id of a new session.
    initialized: The response to the control request `initialize`.
    controls: Control request -> its response, besides those about the mode, the model and the turn. Others fail.
    started: Sent before a turn.
    called: Sent when the model calls a tool.
    asked: The fields of a request for permission.
    done: Sent when a tool call succeeded: {result}.
    refused: Sent when a tool call was refused or failed: {result}.
    success: The {result} of a successful call.
    denial: A refused call among {denials}.
    after_refusal: Whether the agent answers after a refused call, or the turn ends without text.
    denied: The {result} of a refused call: {reason} is the client's.
    nobody: The {result} of a call that nobody can permit.
    partial: Sent before `answered` if its option is given.
    partial_end: Sent after the first of `answered` in this case.
    partial_option: The option that asks for `partial`.
    answered: Sent at the end of a turn: {text}.
    failed: Sent instead if the backend failed: {error}, {status}.
    interrupted: Sent instead if the client interrupted the turn.
    hooks: Hook event -> the fields of its input, in addition to those of each event.
    hook_input: The fields of the input of each hook event.
    lost: How it refuses to resume.
    """

    argv: Annotated[Strings, Meta(min_length=1)]
    initialized: Record
    started: Records
    called: Records
    asked: Record
    done: Records
    refused: Records
    answered: Records
    failed: Records
    lost: LostSession
    mode: Flag | None = None
    session: Flag | None = None
    controls: Mapping[str, Record] = field(default_factory=dict)
    success: Text = "done"
    denied: Text = "{reason}"
    nobody: Text = "the user declined"
    denial: Record = field(default_factory=dict)
    after_refusal: Literal["answers", "ends"] = "answers"
    partial: Records = ()
    partial_end: Records = ()
    partial_option: Flag | None = None
    interrupted: Records = ()
    hooks: Mapping[str, Record] = field(default_factory=dict)
    hook_input: Record = field(default_factory=dict)


class AppServerSimulation(Struct, frozen=True):
    """Fields of an app server's messages, and its notifications, beyond those that every release sends.

    Slots are {thread}, {turn}, {home}, {model}, {millis}, and for a turn {started_at} and {completed_at} in seconds
    since the epoch and {duration_ms}, which are null while they aren't known.

    initialized: Of the response to `initialize`.
    notified: Of every notification, beside its method.
    thread: Of a thread.
    opened: Of the response to `thread/start` and `thread/resume`.
    resumed: Of the response to `thread/resume` alone.
    turn: Of a turn.
    answered: Of a turn that ended with a message.
    error: Of the error of a turn.
    asked: Of a request for approval.
    items: Kind of item -> its fields.
    completed: Of the notification that an item is complete.
    text: Of a text of the user.
    told: Notifications after the response to `initialize`, before `turn/started`, and before `turn/completed` of a turn
        that ended with a message.
    """

    initialized: Record = field(default_factory=dict)
    notified: Record = field(default_factory=dict)
    thread: Record = field(default_factory=dict)
    opened: Record = field(default_factory=dict)
    resumed: Record = field(default_factory=dict)
    turn: Record = field(default_factory=dict)
    answered: Record = field(default_factory=dict)
    error: Record = field(default_factory=dict)
    asked: Record = field(default_factory=dict)
    items: Mapping[str, Record] = field(default_factory=dict)
    completed: Record = field(default_factory=dict)
    text: Record = field(default_factory=dict)
    told: Annotated[Mapping[str, Records], keys("initialized", "started", "answered")] = field(default_factory=dict)


class ServiceRequest(Struct, frozen=True):
    """A request to a service, and its answer.

    name: Its method; over HTTP also its path, in which {handle} is a session's id and {request} that of a request for
        permission.
    match: Dotted path into its parameters -> the value there, if its name alone doesn't tell it from others.
    members: What may stand beside the prompt. Absent: anything.
    does: What it does. `starts` is answered at once and `prompts` when the turn has ended. Without their prompt, or a
        session where one must be named, they are another request. Where none can be named, they open one.
    handle, prompt, request, decision, agent, directory: Dotted paths into its parameters: the id of the session, the
        prompt, the id of a request for permission, the decision about it, the session mode of the turn, and the
        directory of a new session.
    allows: The decisions that allow the action.
    answer: The answer.
    status: The HTTP status.
    """

    name: Text
    does: Literal["answers", "opens", "loads", "prompts", "starts", "decides", "cancels", "drops", "ends"] = "answers"
    handle: str = ""
    prompt: str = ""
    request: str = ""
    decision: str = ""
    agent: str = ""
    directory: str = "directory"
    match: Record = field(default_factory=dict)
    members: Texts = ()
    allows: Texts = ()
    answer: Any = None
    status: int = 200


class ServiceFailure(Struct, frozen=True):
    """How a request is refused.

    status: The HTTP status, or the code of the error; without HTTP, 200 says that it is no error of the protocol.
    answer: The body, the message of the error, or the result that tells of the failure.
    """

    status: int
    answer: Any = None


class ServiceSimulation(Struct, frozen=True):
    """The messages of an engine that serves the sessions of a client with requests and events.

    Slots are {handle}, {cwd}, {model}, {version}, {prompt}, {text}, {error}, {status}, {uuid}, {hex:N}, {alnum:N},
    {millis}, those of a tool call, {request} (for permission), {decision}, {agent}, {request_id}: that of the request
    for the turn, `ids`, {session}, {sessions}, {history}, and {busy}: each session that runs a turn -> `busy`.

    argv: Words that start it.
    wire: Requests over HTTP and server-sent events, or JSON-RPC on the standard streams, with a header or a line for
        each message.
    finds: Whether it finds the sessions of other processes.
    host, port: The options with the address.
    listening: Printed when it listens: {url}.
    events: The path of the stream of events over HTTP.
    directory: The header with the directory of a request, percent-encoded, unless the parameter `directory` names one.
    event: What surrounds an event: {event}.
    connected: Events for each client of the stream of events.
    requests: The requests that it knows.
    unknown: How it refuses others.
    lost: How it refuses a session that doesn't exist.
    ids: Slot -> the form of an id that is generated once per turn.
    session: {session}.
    history: Role -> the entry of a message of the session in {history}.
    busy: What {busy} says about a session.
    opened: Events when a session was opened.
    started: Events when a turn starts.
    called: Events when the model calls a tool.
    asked: The event that asks for permission. Absent: it refuses every action, and asks for none.
    decided: Events after the decision: {decision}.
    done: Events when a call succeeded.
    refused: Events when it was refused or failed: {error}.
    answered: Events about the answer.
    failed: Events about a failure.
    cancelled: Events about a turn that the client cancelled, or that ended with a refused call.
    ended: Events at the end of each turn.
    failure: The answer of `prompts` if the turn failed. Absent: that of a turn that ended well.
    unanswered: That of a turn that was cancelled, or that ended with a refused call.
    """

    argv: Annotated[Strings, Meta(min_length=1)]
    wire: Literal["http", "stdio", "lines"]
    requests: tuple[ServiceRequest, ...]
    unknown: ServiceFailure
    lost: ServiceFailure
    asked: Record = field(default_factory=dict)
    host: Flag | None = None
    port: Flag | None = None
    finds: bool = True
    listening: str = ""
    events: str = ""
    directory: str = ""
    event: Any = "{event}"
    connected: Records = ()
    ids: Mapping[str, Text] = field(default_factory=dict)
    session: Record = field(default_factory=dict)
    history: Annotated[Mapping[str, Record], keys("assistant", "user")] = field(default_factory=dict)
    busy: Any = None
    opened: Records = ()
    started: Records = ()
    called: Records = ()
    decided: Records = ()
    done: Records = ()
    refused: Records = ()
    answered: Records = ()
    failed: Records = ()
    cancelled: Records = ()
    ended: Records = ()
    failure: Any = None
    unanswered: Any = None


class LoadFailure(Struct, frozen=True):
    """The error with which an agent refuses to load a session: {handle}."""

    code: int
    message: Text
    data: Record | None = None


class AcpSimulation(Struct, frozen=True):
    """The messages of an engine that speaks the Agent Client Protocol.

    Slots are those of the stream-json messages.

    initialized: The fields of the response to `initialize`, beyond the protocol's version and the agent's name.
    modes: The modes of a session, with their descriptions. Absent: those of the contract.
    mode_option: The option whose values are these modes. A release has only those that its help page offers.
    opened: Updates after the response that a session is new.
    prompted: The fields of the response to a prompt, beyond the reason for its end.
    called: Updates when the model calls a tool.
    unasked: Updates before a call that needs no permission.
    asked: The tool call in a request for permission.
    options: The options of such a request, in order. Absent: to allow always, once, or to reject.
    decided: Updates after the answer to such a request.
    done: Updates when a tool call succeeded.
    failed: Updates when it failed: {result}.
    refused: Updates when it was refused: {result}.
    declined: The {result} of a refused call.
    cancelled: Updates when the client cancelled the turn during a call.
    after_text: Updates after the text of a turn.
    loaded: Updates when a session was loaded, before what was written in it.
    recalled: Updates about a call of a loaded session, before those about its end. Absent: such calls are left out.
    recalled_end: How such a call ended -> updates about that. Absent: as for any other call.
    unreadable: The {result} of a call if the client can't read the file: {error}.
    client_files: What an agent does with the file system of a client that offers it.
    loads: Whether `session/load` finds sessions.
    lost: The error if it doesn't.
    """

    initialized: Record = field(
        default_factory=lambda: {"agentCapabilities": {"loadSession": False}, "authMethods": []}
    )
    modes: Records = ()
    mode_option: Flag | None = None
    opened: Records = ()
    prompted: Record = field(default_factory=dict)
    called: Records = ({"sessionUpdate": "tool_call", **_ASKED},)
    unasked: Records = ()
    asked: Record = field(default_factory=lambda: _ASKED)
    options: Records = ()
    decided: Records = ()
    done: Records = (_DONE,)
    failed: Records = (_FAILED,)
    refused: Records = (_FAILED,)
    declined: Text = "the user declined"
    cancelled: Records = ()
    after_text: Records = ()
    loaded: Records = ()
    recalled: Records = ()
    recalled_end: Annotated[Mapping[str, Records], keys("done", "failed", "refused")] = field(default_factory=dict)
    unreadable: Text = "{error}"
    client_files: Annotated[Texts, Meta(extra_json_schema={"items": {"enum": ["read", "write"]}})] = ()
    loads: bool = False
    lost: LoadFailure = LoadFailure(-32002, "Resource not found: session:{handle}")
