"""A made-up agent CLI that prints help on stderr, its answer in a list, and its session id in the last record.

It is no simulated engine because it stands for the executable that the author of a contract starts from.
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import urllib.request
import uuid
from pathlib import Path
from typing import Any


def tool(name: str, *parameters: str) -> dict[str, Any]:
    """Describe a tool for the model."""
    properties = {each: {"type": "string"} for each in parameters}
    function = {"name": name, "parameters": {"type": "object", "properties": properties}}
    return {"type": "function", "function": function}


TOOLS = [tool("save_file", "path", "text"), tool("run_command", "command")]


class _Cli(argparse.ArgumentParser):
    """Prints its help on stderr."""

    def print_help(self, _file: object = None) -> None:
        """Print the help."""
        super().print_help(sys.stderr)


cli = _Cli(prog="brook", allow_abbrev=False)
cli.add_argument("--version", action="store_true")
cli.add_argument("--json", action="store_true", help="print one event per line")
cli.add_argument("--model", "-m", default="brook-1", help="the model")
cli.add_argument("--auto", action="store_true", help="run tools without asking")
cli.add_argument("--session", metavar="ID", help="continue a session")
cli.add_argument("prompt", nargs="?", help="the prompt, or - for standard input")
args = cli.parse_args()
if args.version:
    sys.stderr.write("brook 1.0.0\n")
    sys.exit(0)


def event(kind: str, **fields: object) -> None:
    """Print an event."""
    sys.stdout.write(json.dumps({"event": [{"kind": kind}], **fields}) + "\n")
    sys.stdout.flush()


prompt = sys.stdin.read() if args.prompt == "-" else args.prompt
session = args.session or f"b{uuid.uuid4().hex[:10]}"
file = Path(os.environ.get("BROOK_HOME") or Path.home() / ".brook") / f"{session}.json"
if args.session and not (session.isalnum() and file.exists()):
    sys.stderr.write(f"brook: no session {session}\n")
    sys.exit(3)
messages = json.loads(file.read_text()) if args.session else []
messages.append({"role": "user", "content": prompt})
event("turn_start")


def asked() -> dict[str, Any]:
    """Return what the model answers."""
    request = urllib.request.Request(
        os.environ["BROOK_BASE_URL"] + "/chat/completions",
        json.dumps({"model": args.model, "messages": messages, "tools": TOOLS}).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ['BROOK_API_KEY']}"},
    )
    with urllib.request.urlopen(request, timeout=300) as response:
        said: dict[str, Any] = json.load(response)["choices"][0]["message"]
        return said


def use(path: str = "", text: str = "", command: str = "") -> str:
    """Run a command or else save a file."""
    if command:
        ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        return f"exit code {ran.returncode}\n{ran.stdout}{ran.stderr}"
    Path(path).write_text(text)
    return "saved"


try:
    while calls := (said := asked()).get("tool_calls"):
        messages.append(said)
        for call in calls:
            wanted = json.loads(call["function"]["arguments"])
            result = use(**wanted) if args.auto else "refused, because nobody can be asked"
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    text = said["content"]
except (OSError, ValueError, http.client.HTTPException) as error:
    event("error", errors=[{"message": str(error)}])
    sys.exit(1)
messages.append({"role": "assistant", "content": text})
file.parent.mkdir(parents=True, exist_ok=True)
file.write_text(json.dumps(messages))
event("message", content=[{"type": "thinking"}, {"type": "text", "text": text}])
event("turn_end", sessions=[{"id": session}])
