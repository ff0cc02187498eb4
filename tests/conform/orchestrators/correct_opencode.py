"""A correct orchestrator for OpenCode: `run` is one process for each turn, and any argument is `serve`, one for all."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.parse
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

SETTINGS = os.environ
LIMIT = float(SETTINGS["TURNGATE_DEADLINE_SEC"])
WORK = SETTINGS["TURNGATE_WORKSPACE"]
ENV = {**SETTINGS, "OPENCODE_PERMISSION": '{"bash": "ask", "edit": "ask"}'}
Answer = dict[str, Any]


class Runner:
    """Runs each turn in a process."""

    session = ""

    def turn(self, text: str, deadline: float) -> str:
        """Run a turn; return its text."""
        resume = ["--session", self.session] if self.session else []
        engine = subprocess.Popen(
            ["opencode", "run", "--format", "json", *resume],
            cwd=WORK,
            env=ENV,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, err = engine.communicate(text.encode(), timeout=deadline)
        except subprocess.TimeoutExpired:
            sys.exit("the engine hangs")
        finally:
            end(engine)
        records = [json.loads(line) for line in out.decode("utf-8-sig").split("\n") if line.startswith("{")]
        done = [at for at, one in enumerate(records) if one["type"] == "step_finish"]
        if engine.returncode != 0 or not done or any(one["type"] == "error" for one in records):
            sys.exit(f"the turn failed: {err.decode()[-500:]}")
        ids = {one["sessionID"] for one in records if "sessionID" in one}
        if len(ids) != 1 or self.session not in ("", *ids):
            sys.exit("there is no session id, or another one")
        (self.session,) = ids
        return "".join(one["part"]["text"] for one in records if one["type"] == "text")


class Server:
    """Has one process for all turns, which starts elsewhere."""

    session = ""

    def __init__(self) -> None:
        self.engine = subprocess.Popen(
            ["opencode", "serve", "--hostname", "127.0.0.1", "--port", "0"],
            cwd=SETTINGS["HOME"],
            env=ENV,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        lines = iter(self.engine.stdout or ())
        found = next((found for line in lines if (found := re.search(r"listening on (\S+)", line))), None)
        if found is None:
            sys.exit("the server did not start")
        self.url = found[1]

    def turn(self, text: str, deadline: float) -> str:
        """Run a turn; return its text."""
        self.session = self.session or str(self._call("/session", {}, deadline)["id"])
        message = {"parts": [{"type": "text", "text": text}]}
        answer = self._call(f"/session/{self.session}/message", message, deadline)
        if answer["info"].get("error") or answer["info"]["sessionID"] != self.session:
            sys.exit(f"the turn failed: {answer['info']}")
        return "".join(part["text"] for part in answer["parts"] if part["type"] == "text")

    def _call(self, path: str, body: object, deadline: float) -> Answer:
        url = f"{self.url}{path}?{urllib.parse.urlencode({'directory': WORK})}"
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=deadline) as response:
            answer: Answer = json.load(response)
            return answer


def end(engine: "subprocess.Popen[bytes] | subprocess.Popen[str]") -> None:
    """End the engine, with everything that it started."""
    with suppress(ProcessLookupError):
        os.killpg(engine.pid, signal.SIGKILL)


def main() -> None:
    """Run a conversation, and print its last answer."""
    engine = Server() if sys.argv[1:] else Runner()
    try:
        answer = engine.turn(Path(SETTINGS["TURNGATE_PROMPT_FILE"]).read_text("utf-8"), LIMIT)
        for name in ("TURNGATE_REPLY", "TURNGATE_REPLY_2"):
            if name in SETTINGS:
                answer = engine.turn(SETTINGS[name], float(SETTINGS.get("TURNGATE_CANCEL_AFTER_SEC", LIMIT)))
    finally:
        if isinstance(engine, Server):
            end(engine.engine)
    if not answer.strip():
        sys.exit("there is no answer")
    print(answer)


main()
