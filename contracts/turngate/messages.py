"""Messages of kept processes that a client and an engine both know: ours, and the simulated one.

Only what the code of both names is here. What differs between engines lies in their contracts and simulations, so a
protocol that a contract describes whole (`json_commands`) has no messages here. Names in JSON are those of the
protocols.

- `acp`: https://agentclientprotocol.com/protocol/schema, version 1. The types of the package `agent-client-protocol`
  0.12.1 are not used: they need pydantic, and refuse what a faulty engine sends and what a lenient one accepts.
- `app_server`: what `codex app-server generate-json-schema` writes.
- `stream_json`: the control protocol of Claude Code's `--input-format stream-json`, as recorded.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar, overload

import msgspec
from msgspec import UNSET, Struct, UnsetType

from turngate.decoding import convert

_T = TypeVar("_T")


def sent(message: Struct) -> dict[str, Any]:
    """Return a message as the JSON object that travels."""
    fields: dict[str, Any] = msgspec.to_builtins(message)
    return fields


@overload
def received(kind: type[_T], value: object) -> _T | None: ...
@overload
def received(kind: Any, value: object) -> Any: ...
def received(kind: Any, value: object) -> Any:
    """Return what arrived as a message of a kind; None if it is none. Unknown fields are ignored."""
    try:
        return convert(value, kind)
    except msgspec.ValidationError:
        return None


class _Camel(Struct, frozen=True, rename="camel"):
    """A message whose fields are written in camel case."""


class TextBlock(Struct, frozen=True, tag_field="type", tag="text"):
    """A text, as a part of a prompt or of what an agent says; in ACP and the app server."""

    text: str


class FileAccess(_Camel, frozen=True):
    """ACP: the files that a client offers to the agent."""

    read_text_file: bool = False
    write_text_file: bool = False


class ClientCapabilities(Struct, frozen=True):
    """ACP: what a client offers to the agent."""

    fs: FileAccess = FileAccess()
    terminal: bool = False


class Initialize(_Camel, frozen=True):
    """ACP: the parameters of `initialize`."""

    protocol_version: int = 1
    client_capabilities: ClientCapabilities = ClientCapabilities()


class NewSession(_Camel, frozen=True):
    """ACP: the parameters of `session/new`, with the working directory."""

    cwd: str | None = None
    mcp_servers: list[Any] = []


class LoadSession(NewSession, frozen=True, kw_only=True):
    """ACP: the parameters of `session/load`."""

    session_id: str


class Prompt(_Camel, frozen=True):
    """ACP: the parameters of `session/prompt`; only some parts of a prompt are texts."""

    session_id: str
    prompt: list[Any]


class SetMode(_Camel, frozen=True):
    """ACP: the parameters of `session/set_mode`."""

    session_id: str
    mode_id: str


class SetModel(_Camel, frozen=True):
    """The parameters of `session/set_model`, which is no part of ACP 1, but known to agents without such an option."""

    session_id: str
    model_id: str


class SetOption(_Camel, frozen=True):
    """ACP: the parameters of `session/set_config_option`."""

    session_id: str
    config_id: str
    value: str


class MessageChunk(_Camel, frozen=True, tag_field="sessionUpdate", tag="agent_message_chunk"):
    """ACP: a piece of the agent's message; pieces of one message have the same id, or none."""

    content: TextBlock
    message_id: Any = UNSET


class UserChunk(_Camel, frozen=True, tag_field="sessionUpdate", tag="user_message_chunk"):
    """ACP: a piece of what the user said, when a session is loaded."""

    content: TextBlock


class ModeUpdate(_Camel, frozen=True, tag_field="sessionUpdate", tag="current_mode_update"):
    """ACP: the mode of the session changed."""

    current_mode_id: Any = None


class PermissionOption(_Camel, frozen=True):
    """ACP: one of the answers that an agent offers when it asks for permission."""

    option_id: str
    name: str
    kind: str


class PermissionOutcome(_Camel, frozen=True):
    """ACP: the option that the user chose; none if the request was cancelled."""

    outcome: str
    option_id: str | UnsetType = UNSET


class PermissionAnswer(Struct, frozen=True):
    """ACP: the result of `session/request_permission`."""

    outcome: PermissionOutcome


class ThreadId(_Camel, frozen=True):
    """App server: the parameter of `thread/resume` and `turn/start` that names the thread."""

    thread_id: str


class Decision(Struct, frozen=True):
    """App server: the result of a request for approval."""

    decision: str


class UserContent(Struct, frozen=True, kw_only=True):
    """Stream JSON: the content of a prompt, a text or blocks of which some have a text."""

    role: str = "user"
    content: Any


class UserMessage(Struct, frozen=True, tag_field="type", tag="user"):
    """Stream JSON: a prompt."""

    message: UserContent


class ControlRequest(Struct, frozen=True, tag_field="type", tag="control_request"):
    """Stream JSON: a request of either side; `subtype` in the request is its kind."""

    request_id: Any
    request: Mapping[str, Any]


class ControlAnswer(Struct, frozen=True):
    """Stream JSON: how a request was answered."""

    request_id: Any
    subtype: str
    response: Any = UNSET
    error: Any = UNSET


class ControlResponse(Struct, frozen=True, tag_field="type", tag="control_response"):
    """Stream JSON: the answer to a control request."""

    response: ControlAnswer


class ToolDecision(_Camel, frozen=True):
    """Stream JSON: the answer to `can_use_tool`; a call that is allowed may get other arguments."""

    behavior: str
    updated_input: Mapping[str, Any] | UnsetType | None = UNSET
    message: str | UnsetType = UNSET


SessionUpdate: TypeAlias = MessageChunk | ModeUpdate
