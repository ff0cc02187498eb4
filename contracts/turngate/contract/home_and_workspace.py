"""What a contract says about a user's home and a stranger's workspace: programs, settings and addresses in them.

None of it may have an effect that the user did not ask for. A probe puts each into a sandbox, runs the engine as
turngate runs it, and then once more without what guards it, since silence shows nothing where nothing was to be heard.
"""

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from msgspec import Struct, field

from turngate.contract.values import (
    NOT_EMPTY,
    FileName,
    Name,
    OnlyTrue,
    RecordPath,
    Regex,
    RelativePath,
    SandboxPath,
    SchemaRule,
    Strings,
    Text,
    Variable,
    matching,
)


class SetupFile(Struct, frozen=True):
    """A file that a sandbox needs. The sandbox fills the slots in both fields."""

    path: SandboxPath
    content: str


class ToolUse(Struct, frozen=True):
    """A tool that acts on files, and the arguments of a call. {work} is the working directory.

    creates_file: The file in the working directory that the call creates.
    """

    name: Text
    arguments: Mapping[str, Any]
    creates_file: FileName = "touched.txt"


class CallingTool(Struct, frozen=True):
    """A tool that takes a program, in which the model calls other tools.

    name: The tool's name.
    input: The program of one call. {tool} is the other tool's name, {arguments} its arguments as a JSON object.
    """

    name: Text
    input: Annotated[Text, matching(r"(?s)^(?=.*\{tool\})(?=.*\{arguments\})")]

    def program(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Return the program that calls a tool."""
        slots = {"tool": tool, "arguments": json.dumps(arguments)}
        return re.sub(r"\{(tool|arguments)\}", lambda slot: slots[slot[1]], self.input)

    def call_in(self, program: str) -> tuple[str, Mapping[str, Any]] | None:
        """Return the tool and the arguments of the call in such a program; None if it is another one."""
        form = re.escape(self.input).replace(r"\{tool\}", r"(?P<tool>\w+)")
        match = re.fullmatch(form.replace(r"\{arguments\}", r"(?P<given>\{.*\})"), program, re.DOTALL)
        try:
            return (match["tool"], json.loads(match["given"])) if match else None
        except ValueError:
            return None


class OngoingCall(Struct, frozen=True):
    """A tool call that outlives its turn, begins another one, or changes the repository, wherever it is carried out.

    In mode interactive nothing may come of it. A probe's model makes all of these calls in one turn, in this order: one
    that searches for tools stands before those that it finds. {work} in arguments is the working directory.

    tool: The tool's name.
    direct: The model calls it without `hermetic.calls_through`.
    """

    name: Name
    tool: Text
    arguments: Mapping[str, Any]
    direct: OnlyTrue = False


class QuestionCall(Struct, frozen=True):
    """A call of the engine's own tool by which the agent asks its user, which nobody can answer in a headless turn.

    A probe's model makes it if a turn offers the tool. {question} in arguments is the text of the question.

    tool: The tool's name.
    refused: Matches what the engine tells its model if it asks nobody, such as `no user is available`.
    """

    name: Name
    tool: Text
    arguments: Mapping[str, Any]
    refused: Regex | None = None


class CommandSandbox(Struct, frozen=True):
    """A sandbox of the engine's own for commands, switched on as its documentation says.

    It keeps commands from writing outside the workspace, which shows in a probe that it is on.

    mode: The mode of the turn, whose own arguments may switch it on.
    files: The user's settings that switch it on, merged as those of an approval setting.
    programs: The programs of the machine that it needs.
    call: A call of the tool that runs commands. {command} in its arguments is a shell command without quotes.
    unsupported: Why no probe can run commands in it.
    """

    RULE: ClassVar[SchemaRule] = {"oneOf": [{"required": ["mode", "call"]}, {"required": ["unsupported"]}]}

    name: Name
    mode: Literal["interactive", "auto"] = "auto"
    files: Annotated[tuple[SetupFile, ...], NOT_EMPTY] = ()
    programs: Annotated[tuple[FileName, ...], NOT_EMPTY] = ()
    call: ToolUse | None = None
    unsupported: Text = ""


class Control(Struct, frozen=True):
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

    RULE: ClassVar[SchemaRule] = {"anyOf": [{"required": ["options"]}, {"required": ["files"]}]}

    name: Name
    kind: Literal["mcp", "notify", "hook", "agent", "plugin", "tool", "helper"]
    options: Annotated[Strings, NOT_EMPTY] = ()
    files: Annotated[tuple[SetupFile, ...], NOT_EMPTY] = ()
    control: Control = Control()


class ApprovalSetting(Struct, frozen=True):
    """A setting of the user that widens approval or sandbox, which it must not do in mode interactive.

    files: Files of the user's home, or of a project that the user trusts. A JSON object is merged into a file that
        exists, a TOML text is put before it, and any other text after it.
    env: The user's variables.
    shows: The call that takes effect in the control run: `tool_call` or `command_call` of `hermetic`.
    tool: A call of a tool that the setting adds, such as one of an MCP server; its control run shows this call.
        {mcp_server} in the files is a harmless server with a tool `act`. Its first argument is the file to create.
    alone: It is tried without the others, because another one would hide it.
    """

    RULE: ClassVar[SchemaRule] = {"anyOf": [{"required": ["env"]}, {"required": ["files"]}]}

    name: Name
    files: Annotated[tuple[SetupFile, ...], NOT_EMPTY] = ()
    env: Annotated[Mapping[Variable, str], NOT_EMPTY] = field(default_factory=dict)
    shows: Literal["tool_call", "command_call"] = "tool_call"
    tool: ToolUse | None = None
    alone: OnlyTrue = False


class SettingSign(Struct, frozen=True):
    """What shows that a setting is in force; one of these.

    started: The program {canary} runs. Its first argument is the name of the setting.
    collected: Something reaches {collector}, an address for telemetry.
    sent: Matches a request to the model.
    written: A file that the engine writes.
    refused: The same files, with a value that ends the release before it asks the model.
    """

    RULE: ClassVar[SchemaRule] = {
        "oneOf": [{"required": [key]} for key in ("started", "collected", "sent", "written", "refused")]
    }

    started: OnlyTrue = False
    collected: OnlyTrue = False
    sent: Regex | None = None
    written: SandboxPath | None = None
    refused: Annotated[tuple[SetupFile, ...], NOT_EMPTY] = ()


class OutputSetting(Struct, frozen=True):
    """A documented setting of the user that must leave what an orchestrator reads where it is.

    kind: What it is about.
    shows: What shows that it is in force.
    files: Files of the user's home, merged as those of an approval setting. Their contents may have more slots:
        {canary}, a program, and {collector}, an address.
    env: The user's variables, with the same slots.
    alone: It is tried without the others, because it does change something.
    """

    RULE: ClassVar[SchemaRule] = {"anyOf": [{"required": ["env"]}, {"required": ["files"]}]}

    name: Name
    kind: Literal["display", "output", "telemetry", "hooks", "language"]
    shows: SettingSign
    files: Annotated[tuple[SetupFile, ...], NOT_EMPTY] = ()
    env: Annotated[Mapping[Variable, str], NOT_EMPTY] = field(default_factory=dict)
    alone: OnlyTrue = False


class NamingSetting(Struct, frozen=True):
    """A setting of the user that names instruction files.

    file: Where it may be: a path that starts with {HOME} or a variable of `store`.
    pattern: Finds it in the text of the file. Every quoted text in its group `names` is the path of such a file.
    """

    file: Annotated[str, matching(r"^\{\w+\}/[^{}*]+$")]
    pattern: Annotated[Regex, matching(r"\(\?P<names>")]


class InstructionFile(Struct, frozen=True):
    """A file in a folder of the workspace, or of the repository above it, that the engine sends to the model by itself.

    A turn is refused if it, or a file that it imports, is a link that leads out of the workspace.

    path: Its name, or the path of a file, or of a folder all of whose files count, below such a folder.
    imports: Finds another file in its text that the engine sends too. Its group `path` is relative to the file.
    named_in: The setting that names it, in place of a path.
    left_out: What keeps it from the model on turngate's own turns, such as a guard, by the mode in which it does.
    """

    RULE: ClassVar[SchemaRule] = {"oneOf": [{"required": ["path"]}, {"required": ["named_in"]}]}

    path: RelativePath = ""
    imports: Annotated[Regex, matching(r"\(\?P<path>")] | None = None
    named_in: NamingSetting | None = None
    left_out: Annotated[Mapping[Literal["auto", "interactive"], Text], NOT_EMPTY] = field(default_factory=dict)


class UnsafeSetting(Struct, frozen=True):
    """A setting of the user that lets the engine act unasked in mode interactive, and that nothing outranks.

    A turn is refused while the setting is there.

    files: Where it may be: a path that starts with {HOME} or a variable of `store`. * matches any part of a name.
    pattern: Finds it in the text of a file.
    remedy: What the user can do instead.
    kept_only: It matters only to a process that outlives a turn.
    """

    name: Name
    files: Annotated[str, matching(r"^\{\w+\}/[^{}]+$")]
    pattern: Regex
    remedy: Text
    kept_only: OnlyTrue = False


class CopiedFile(Struct, frozen=True):
    """Values of a user's settings file, JSON or TOML, that a probe can take along.

    file: Where it is: a path that starts with {HOME} or a variable of `store`.
    into: The file of the sandbox that gets the values.
    keys: Dotted paths of values. Only a text, a number or a boolean is copied.
    """

    file: Annotated[str, matching(r"^\{\w+\}/[^{}*]+\.(json|toml)$")]
    into: Annotated[SandboxPath, matching(r"\.(json|toml)$")]
    keys: Annotated[tuple[RecordPath, ...], NOT_EMPTY]


class CopiedSettings(Struct, frozen=True):
    """What of the user's home the proof of a resume and `probe --my-settings` run with, because it may change turns.

    Nothing else is copied: list no credentials, and nothing that starts a program or names a server.

    files: Settings files, and which of their values.
    env: Variables that turns get, too.
    """

    files: tuple[CopiedFile, ...] = ()
    env: tuple[Variable, ...] = ()


class Redirect(Struct, frozen=True):
    """Something in a workspace that redirects or reconfigures the engine, which it must not do in any mode.

    kind: What it changes: where requests go, what authenticates them, the vendor's system prompt, a container to run
        in, or a program to start.
    files: Files of the workspace, merged as those of an approval setting. Their contents may have more slots:
        {stranger}, an address; {planted}, a key; {marker}, a text; {canary}, a program, to which the name of this entry
        is passed as its first argument.
    unset: Variables of `hermetic.env` to leave out, because a variable that is set would hide this.
    alone: It is tried without the others, because another one would hide it.
    control: What the control run needs.
    """

    name: Name
    kind: Literal["address", "credentials", "system-prompt", "container", "program"]
    files: Annotated[tuple[SetupFile, ...], NOT_EMPTY]
    unset: Annotated[tuple[Variable, ...], NOT_EMPTY] = ()
    alone: OnlyTrue = False
    control: Control = Control()
