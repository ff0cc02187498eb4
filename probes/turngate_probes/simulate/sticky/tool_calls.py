"""What a tool call of the model means for a simulated engine: its file, and the slots of messages about it."""

import os
import re
from pathlib import Path

from turngate import EngineContract
from turngate.contract.home_and_workspace import ToolUse
from turngate.files import real_path
from turngate_probes.simulate.backend import Called
from turngate_probes.simulate.printing import Slots

_CONTENT = "simulated\n"
_ADDS, _FAILS = re.compile(r"\bexpr (\d+) \+ (\d+)"), re.compile(r"; exit (\d+)")
_READS = re.compile(r"\bcat (?P<path>[\w./-]+)$")
_WRITES = re.compile(r"(?:\becho (?P<text>[\w ]+?) *> *|\btouch )(?P<path>[\w./-]+)$")


def slots_of(call: Called, tool: ToolUse, cwd: str) -> Slots:
    """Return the slots of messages about a call, in which a relative path is below the working directory."""
    path, content = _file(call, tool, cwd)
    key = _path_key(tool)
    absolute = {**call.arguments, key: str(path)} if key and key in call.arguments else call.arguments
    return {
        "tool": call.tool,
        "call_id": call.call_id,
        "input": dict(call.arguments),
        "absolute_input": dict(absolute),
        "subject": call.text,
        "path": str(path),
        "file": path.name,
        "content": content,
    }


def act(call: Called, tool: ToolUse, cwd: str, within: str | None = None) -> str | None:
    """Write or read the file that a call is about, and return the error if that fails. Nothing is ever run.

    A written file must be below the directory `within`, which is the working directory if it is None.
    """
    if reads := _READS.search(call.text.rstrip("'")):
        return _read(Path(cwd, reads["path"]))
    path, content = _file(call, tool, cwd)
    try:
        if path.is_symlink() or not real_path(path).is_relative_to(real_path(Path(within or cwd))):
            return f"{path} is a link, or outside of {within or 'the workspace'}"
        # refuses a link that was made since
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(content)
    except (OSError, ValueError) as error:
        return f"{path.name} can't be written: {error}"
    return None


def ran(call: Called, contract: EngineContract) -> str | None:
    """Return what a command in a sandbox of the engine's own tells the model; None: the call is no such command."""
    if all(own.call is None or own.call.name != call.tool for own in contract.command_sandboxes):
        return None
    if adds := _ADDS.search(call.text):
        return f"exit code 0\n{int(adds[1]) + int(adds[2])}"
    fails = _FAILS.search(call.text)
    return f"exit code {fails[1]}" if fails else None


def _read(path: Path) -> str | None:
    try:
        path.read_bytes()
    except OSError as error:
        return f"{path.name} can't be read: {error}"
    return None


def _path_key(tool: ToolUse) -> str | None:
    """Return the argument that is the path of the tool's file; None if the file is part of a command."""
    whole = {tool.creates_file, f"{{work}}/{tool.creates_file}"}
    return next((key for key, value in tool.arguments.items() if value in whole), None)


def _file(call: Called, tool: ToolUse, cwd: str) -> tuple[Path, str]:
    """Return the path and the content of the file that a call writes."""
    key = _path_key(tool)
    name = call.arguments.get(key) if key else None
    if not isinstance(name, str) or not name:
        command = _WRITES.search(call.text.rstrip("'"))
        if command is None:
            return Path(cwd, tool.creates_file), _CONTENT
        return Path(cwd, command["path"]), f"{command['text']}\n" if command["text"] else ""
    others = (value for other, value in call.arguments.items() if other != key and isinstance(value, str))
    return Path(cwd, name), next(others, _CONTENT)
