"""What a contract says about running its engine in the probe's sandbox, and about programs offered to it there."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

from turngate.contract.values import NOT_EMPTY, Name, Rule, Strings, Text, Texts


class SetupFile(Struct, frozen=True):
    """A file that a sandbox needs. The sandbox fills the slots in both fields."""

    path: Text
    content: str


class ToolUse(Struct, frozen=True):
    """A tool that acts on files, and the arguments of a call. {work} is the working directory.

    creates_file: The file in the working directory that the call creates.
    """

    name: Text
    arguments: Mapping[str, Any]
    creates_file: Text = "touched.txt"


class Hermetic(Struct, frozen=True):
    """What makes a probe's engine connect only to the stub model backend.

    {url} is the backend; {home}, {work} and {tmp} are directories of the sandbox. {shared} is one directory for all
    sandboxes of a probe, for a program that unpacks itself at its first start.

    model: Name of the model that the stub replaces, passed by `launch.model`.
    options: Caller options for every turn of the probe, including resumes.
    egress: Hosts that the release is known to contact. Each attempt is blocked. Any other host fails
        network.loopback-only.
    failure_deadline: Seconds from the first request in which a turn with a failing model backend must end, for releases
        that retry longer than backend.failure-told waits.
    """

    env: Mapping[str, str]
    files: tuple[SetupFile, ...]
    model: Text
    options: Strings = ()
    egress: Texts = ()
    tool_call: ToolUse | None = None
    failure_deadline: Annotated[float, Meta(ge=1, le=100)] | None = None


class CanaryControl(Struct, frozen=True):
    """What the control run needs, such as trust in the workspace.

    options: Caller options.
    files: Files to write before the control run.
    """

    options: Strings = ()
    files: tuple[SetupFile, ...] = ()


class Canary(Struct, frozen=True):
    """A way to make the engine start a program, which it must not do in mode interactive.

    {canary} in options and contents is a harmless program that leaves a marker. Its first argument is the name.

    kind: What starts the program.
    options: Caller options.
    files: Files in the workspace. Several canaries may share a file with the same content.
    """

    RULE: ClassVar[Rule] = {"anyOf": [{"required": ["options"]}, {"required": ["files"]}]}

    name: Name
    kind: Literal["mcp", "notify", "hook", "agent", "plugin", "tool", "helper"]
    options: Annotated[Strings, NOT_EMPTY] = ()
    files: Annotated[tuple[SetupFile, ...], NOT_EMPTY] = ()
    control: CanaryControl = CanaryControl()
