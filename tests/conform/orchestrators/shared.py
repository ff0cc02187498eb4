"""An orchestrator for OpenCode whose conversations share one `serve`: shared.py [HABIT].

The first conversation starts the server, and ends it when all have left. Each reads the events of all sessions; one
that `mixes-up` takes any of them for its own. One `names-it-in-a-header`, as the official client does, and works in the
right directory, too; one that `opens-elsewhere` names another. One that `sends-twice` sends a reply twice, and one that
`repeats-the-prompt` sends the first prompt with it.
"""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SETTINGS = os.environ
WORK = SETTINGS["TURNGATE_WORKSPACE"]
HABIT = "".join(sys.argv[1:])
BOARD = Path(SETTINGS["HOME"], "server")
Event = dict[str, Any]


def joined(by: int) -> Event:
    """Join or leave the server's clients; return its address, and how many there are. The first one starts it."""
    with BOARD.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        board: Event = json.loads(file.read() or "{}") or {"url": started(), "clients": 0, "owner": os.getpid()}
        board["clients"] += by
        file.truncate(0)
        file.write(json.dumps(board))
        return board


def started() -> str:
    """Start the server; return its address."""
    env = {**SETTINGS, "OPENCODE_PERMISSION": '{"bash": "ask", "edit": "ask"}'}
    command = ["opencode", "serve", "--hostname", "127.0.0.1", "--port", "0"]
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "text": True}
    server = subprocess.Popen(command, cwd=SETTINGS["HOME"], env=env, **pipes, start_new_session=True)
    SERVERS.append(server)
    assert server.stdout
    for line in server.stdout:
        if found := re.search(r"listening on (\S+)", str(line)):
            return found[1]
    return sys.exit("the server did not start")


SERVERS: "list[subprocess.Popen[str]]" = []


def call(url: str, path: str, body: object = None) -> Any:
    """Send a request; return the response."""
    data = json.dumps(body).encode() if body else None
    directory, headers = SETTINGS["HOME"] if HABIT == "opens-elsewhere" else WORK, {"Content-Type": "application/json"}
    if HABIT == "names-it-in-a-header":
        headers["x-opencode-directory"] = urllib.parse.quote(directory, safe="")
    else:
        path += f"?{urllib.parse.urlencode({'directory': directory})}"
    return urllib.request.urlopen(urllib.request.Request(url + path, data, headers))


def events(url: str) -> Iterator[Event]:
    """Yield the events of every session, from when the server has connected."""
    for line in call(url, "/event"):
        if line.startswith(b"data: "):
            yield json.loads(line.removeprefix(b"data: "))


def turn(url: str, session: str, told: Iterator[Event], text: str) -> str:
    """Run a turn; return its text."""
    call(url, f"/session/{session}/prompt_async", {"parts": [{"type": "text", "text": text}]})
    asked, said = set[str](), dict[str, str]()
    for event in told:
        about = event.get("properties", {})
        if about.get("sessionID") != session and HABIT != "mixes-up":
            continue
        match event["type"]:
            case "message.updated" if about["info"]["role"] == "user":
                asked.add(about["info"]["id"])
            case "message.part.updated" if about["part"]["type"] == "text":
                if about["part"]["messageID"] not in asked:
                    said[about["part"]["id"]] = about["part"]["text"]
            case "session.error":
                sys.exit(f"the turn failed: {about}")
            case "session.idle":
                return "".join(said.values())
    return sys.exit("the server ended")


def main() -> None:
    """Run a conversation, and print its last answer."""
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("the deadline has passed"))
    board = joined(1)
    try:
        told = events(board["url"])
        next(told)
        with call(board["url"], "/session", {"title": "shared"}) as opened:
            session = json.load(opened)["id"]
        answer, before = "", ""
        for name in ("TURNGATE_PROMPT_FILE", "TURNGATE_REPLY_FILE", "TURNGATE_REPLY_2_FILE"):
            if name in SETTINGS:
                signal.alarm(int(float(SETTINGS["TURNGATE_DEADLINE_SEC"])))
                text = Path(SETTINGS[name]).read_text("utf-8")
                if before and HABIT == "sends-twice":
                    turn(board["url"], session, told, text)
                sent = f"{before}{text}" if HABIT == "repeats-the-prompt" else text
                answer, before = turn(board["url"], session, told, sent), f"{text}\n\n"
        if not answer.strip():
            sys.exit("there is no answer")
        print(answer)
    finally:
        signal.alarm(0)
        joined(-1)
        while board["owner"] == os.getpid() and joined(0)["clients"]:
            time.sleep(0.05)
        for server in SERVERS:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


main()
