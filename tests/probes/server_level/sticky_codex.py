# ruff: noqa: T201 - engines print
"""A kept codex: its app server asks the model backend by HTTP, with all that was said, and asks before it acts.

A file `lies` beside it holds words of this list: `forgets` (each turn is alone), `acts` (without asking), `starts-anew`
(by a second start of itself), `stays` (when its input ends and when it is asked to end).
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import tomllib
import urllib.parse
from pathlib import Path
from typing import Any

Json = dict[str, Any]
ME = Path(sys.argv[0])
LIES = set((ME.parent / "lies").read_text().split())


def put(**message: Any) -> None:
    """Print one message."""
    print(json.dumps(message), flush=True)


def get() -> Json:
    """Read the next message; the end of input is the end."""
    line = sys.stdin.readline()
    while not line and "stays" in LIES:
        signal.pause()
    if not line:
        sys.exit(0)
    message: Json = json.loads(line)
    return message


def ask(history: list[Json]) -> Json:
    """Return what the model answers: an item of its first output."""
    config = tomllib.loads((Path(os.environ["HOME"]) / ".codex" / "config.toml").read_text())
    (provider,) = config["model_providers"].values()
    url = urllib.parse.urlsplit(provider["base_url"])
    connection = http.client.HTTPConnection(str(url.hostname), url.port)
    body = json.dumps({"model": "stub-asked", "input": history, "stream": False, "tools": []})
    connection.request("POST", f"{url.path}/responses", body, {"Content-Type": "application/json"})
    document = json.loads(connection.getresponse().read())
    item: Json = document["output"][0]
    return item


def text_of(item: Json) -> str:
    """Return the text of a message."""
    return "".join(part["text"] for part in item["content"])


def act(item: Json, history: list[Json]) -> Json:
    """Ask for permission, tell the model what was decided, and give its answer."""
    params = {"threadId": "t-1", "command": "touch", "availableDecisions": ["accept"]}
    decision = "accept"
    if "acts" not in LIES:
        put(id=100, method="item/commandExecution/requestApproval", params=params)
        decision = get()["result"]["decision"]
    call = {"type": "function_call", "call_id": item["call_id"], "name": item["name"], "arguments": item["arguments"]}
    history += [call, {"type": "function_call_output", "call_id": item["call_id"], "output": decision}]
    return ask(history)


def turn(text: str, history: list[Json]) -> None:
    """Run a turn, and tell its end."""
    if "forgets" in LIES:
        history.clear()
    if "starts-anew" in LIES and history:
        subprocess.run(
            [str(Path(os.environ["PATH"].split(":")[0]) / ME.name), "--version"], stdout=subprocess.DEVNULL, check=True
        )
    history.append({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
    item = ask(history)
    if item["type"] == "function_call":
        item = act(item, history)
    said = {"type": "agentMessage", "id": str(len(history)), "text": text_of(item)}
    put(method="item/completed", params={"threadId": "t-1", "item": said})
    put(method="turn/completed", params={"threadId": "t-1", "turn": {"status": "completed"}})


def serve() -> None:
    """Answer until the input ends."""
    history: list[Json] = []
    if "stays" in LIES:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        message = get()
        if "id" not in message:
            continue
        result: Json = {}
        if message["method"] == "thread/start":
            result = {"thread": {"id": "t-1"}, "approvalPolicy": message["params"]["approvalPolicy"]}
            result |= {"approvalsReviewer": "user", "sandbox": {"type": "readOnly"}}
        put(id=message["id"], result=result)
        if message["method"] == "turn/start":
            turn(message["params"]["input"][0]["text"], history)


if sys.argv[1:] == ["--version"]:
    print("codex-cli 0.169.0")
elif "--help" in sys.argv:
    print("HELP")
else:
    serve()
