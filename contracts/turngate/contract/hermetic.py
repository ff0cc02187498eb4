"""What a contract says about running its engine in the probe's sandbox."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct

from turngate.contract.home_and_workspace import CallingTool, SetupFile, ToolUse
from turngate.contract.values import NOT_EMPTY, RecordPath, Regex, Strings, Text, Texts


class MachineNeed(Struct, frozen=True):
    """Something that the engine's own sandbox needs, such as user namespaces.

    pattern: Matches what the engine tells its model about a call if the machine lacks it.
    """

    what: Text
    pattern: Regex


class Effort(Struct, frozen=True):
    """How a caller asks for more or less reasoning, and what the request to the model then says.

    options: Caller options that ask for an effort that the release doesn't take by itself.
    field: Where the request has it.
    value: What is there.
    """

    options: Annotated[Strings, NOT_EMPTY]
    field: RecordPath
    value: Text


class Compaction(Struct, frozen=True):
    """What makes the engine compact a conversation: it asks the model for a summary, and goes on with that.

    tokens: So many tokens, as the model counts them in a request, make the conversation too long.
    request: A part of the request for a summary that no other request has.
    """

    tokens: Annotated[int, Meta(ge=1)]
    request: Text


class Hermetic(Struct, frozen=True):
    """What makes a probe's engine connect only to the stub model backend.

    {url} is the backend; {home}, {work} and {tmp} are directories of the sandbox. {shared} is one directory for all
    sandboxes of a probe, for a program that unpacks itself at its first start.

    model: A model for turns to ask for by `launch.model`, which the release doesn't know unless `files` describe it.
    default_model: What decides which model the release takes by itself, in a few words, such as `the release alone`.
        Turns then run with that model. Absent: it takes none by itself, so turns ask for `model`.
    no_default_model: Why it takes none by itself, and what that depends on, in a few words.
    options: Caller options for every turn of the probe, including resumes.
    effort: How the effort of that model is chosen, where an option does that.
    tool_call: A call that writes a file, by a command where the engine has no other tool for it.
    command_call: A call that runs a command, where that takes another tool.
    calls_through: The tool through which the model that the release takes by itself calls these and all other tools.
    egress: Hosts that the release is known to contact. Each attempt is blocked. Any other host fails
        network.loopback-only.
    vendor: Hosts of the model to which the release turns if nothing names the backend. A turn without the backend is
        stopped once it has tried to reach one.
    failure_deadline: Seconds from the first request in which a turn with a failing model backend must end, for releases
        that retry longer than backend.failure-told waits.
    compaction: Makes the engine compact a conversation by itself.
    needs: What a machine may lack, so that calls have no effect although they are allowed.
    """

    env: Mapping[str, str]
    files: tuple[SetupFile, ...] = ()
    model: Text = "stub"
    default_model: Text | None = None
    no_default_model: Text | None = None
    options: Strings = ()
    egress: Texts = ()
    vendor: Texts = ()
    tool_call: ToolUse | None = None
    command_call: ToolUse | None = None
    calls_through: CallingTool | None = None
    effort: Effort | None = None
    failure_deadline: Annotated[float, Meta(ge=1, le=100)] | None = None
    compaction: Compaction | None = None
    needs: tuple[MachineNeed, ...] = ()
