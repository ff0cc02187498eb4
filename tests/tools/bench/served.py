"""Runs `turngate serve` for a bench, with a minimal engine or a real one, and a client."""

import http.client
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate_probes.harness.sandbox import Sandbox

PATIENCE = 120  # seconds for one response
TURNGATE = str(Path(sys.executable).with_name("turngate"))
ASK = json.dumps(
    {
        "outcome": "ask_user",
        "interaction": {"kind": "open_text", "prompt": "?", "options": [], "required_fields": [], "context": {}},
    }
)
FINAL = json.dumps({"outcome": "final", "final_data": {"x": 1}})
# a server resumes only an engine whose help lists the options in the contract
HELP = " ".join(name for page in load.contract("codex").at("0.169.0").help.pages for name in page.names)
CREATE = {"engine": "codex", "prompt": "hello", "execution_mode": "interactive", "session_timeout_sec": 60}
ENGINE = f"""#!/bin/sh
[ "$1" = --version ] && echo "codex-cli 0.169.0" && exit
case "$*" in *--help*) echo "{HELP}"; exit;; esac
cat > /dev/null
echo turn >> "$HOME/turns"
case "$*" in
*" resume "*)
  id=${{*#* resume }}; id=${{id%% *}}; text='{FINAL}';;
*)
  read -r id < /proc/sys/kernel/random/uuid; text='{ASK}'
  : > "$HOME/.codex/sessions/2026/01/01/rollout-x-$id.jsonl";;
esac
text=$(printf %s "$text" | sed 's/"/\\\\"/g')
echo '{{"type": "thread.started", "thread_id": "'"$id"'"}}'
echo '{{"type": "item.completed", "item": {{"type": "agent_message", "text": "'"$text"'"}}}}'
echo '{{"type": "turn.completed"}}'
"""


def make_home(folder: Path) -> dict[str, str]:
    """Make a home with the engine on PATH; return the environment for it."""
    (folder / "bin").mkdir()
    engine = folder / "bin" / "codex"
    engine.write_text(ENGINE)
    engine.chmod(0o755)
    engine.with_name("package.json").write_text('{"name": "@openai/codex", "version": "0.169.0"}')
    (folder / ".codex" / "sessions" / "2026" / "01" / "01").mkdir(parents=True)
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return os.environ | {"HOME": str(folder), "PATH": path, "TURNGATE_CACHE_DIR": str(folder / "cache")}


@dataclass(frozen=True, slots=True)
class Served:
    """A running server; `seconds` is the time from its start until it was ready."""

    port: int
    process: subprocess.Popen[str]
    seconds: float

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None, **headers: str) -> tuple[int, Any]:
        """Send a request; return status and document."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        sent = json.dumps(body) if body is not None else None
        connection.request(method, path, sent, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        reply = answer.status, json.loads(answer.read() or b"null")
        connection.close()
        return reply

    def text(self, path: str) -> str:
        """Read a response body that is not JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", path)
        reply = connection.getresponse().read().decode()
        connection.close()
        return reply

    def until(self, run_id: str, *states: str, after: int = 0) -> int:
        """Follow a run's events after that event until it is in one of these states; return the id of its event.

        RuntimeError if it ends in another state.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", f"/v1/runs/{run_id}/events", headers={"Last-Event-ID": str(after)})
        seen = None
        with closing(connection), connection.getresponse() as answer:
            for line in answer:
                if line.startswith(b"id: "):
                    after = int(line[4:])
                elif line.startswith(b"data: ") and (seen := json.loads(line[6:]).get("state", seen)) in states:
                    return after
        raise RuntimeError(f"{run_id} ended as {seen} without being {' or '.join(states)}")

    @property
    def memory(self) -> int:
        """The resident memory in bytes."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    @property
    def children(self) -> int:
        """The number of child processes."""
        return len(psutil.Process(self.process.pid).children(recursive=True))

    @property
    def threads(self) -> int:
        """The number of threads."""
        return int(psutil.Process(self.process.pid).num_threads())

    @property
    def files(self) -> int:
        """The number of open file descriptors."""
        return int(psutil.Process(self.process.pid).num_fds())

    def metric(self, name: str) -> float:
        """Return a metric without labels."""
        lines = self.text("/metrics").splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def reply(served: Served, run_id: str, response: str = "red") -> None:
    """Answer a waiting run's question."""
    send_reply(served, run_id, question(served, run_id), response)


def question(served: Served, run_id: str) -> str:
    """Return the id of a waiting run's question."""
    _, asked = served.ask("GET", f"/v1/runs/{run_id}/interaction")
    return str(asked["pending"]["interaction_id"])


def send_reply(served: Served, run_id: str, interaction_id: str, response: str) -> None:
    """Answer a question whose id is known."""
    body = {"interaction_id": interaction_id, "response": response}
    status, said = served.ask("POST", f"/v1/runs/{run_id}/interaction/reply", body)
    if status != 202:
        raise RuntimeError(f"the reply to {run_id} was answered {status}: {said}")


@contextmanager
def serving(data: Path, env: dict[str, str], *options: str) -> Iterator[Served]:
    """Run a server on a free port; Ctrl-C doesn't reach it, so that it ends after its clients."""
    argv = [TURNGATE, "serve", "--port", "0", "--data-dir", str(data), "--verify", "off", "--no-token", *options]
    start = time.perf_counter()
    process = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True, process_group=0)
    try:
        said = process.stdout.readline() if process.stdout else ""
        address = re.search(r"http://127\.0\.0\.1:(\d+)", said)
        if address is None:
            raise RuntimeError("the server did not start")
        served = Served(int(address[1]), process, 0.0)
        while served.ask("GET", "/readyz")[0] != 200:
            time.sleep(0.01)
        yield Served(int(address[1]), process, time.perf_counter() - start)
    finally:
        process.terminate()
        process.wait(60)
        if process.stdout:
            process.stdout.close()


@contextmanager
def serving_release(contract: EngineContract, executable: Path, box: Sandbox) -> Iterator[Served]:
    """Run a server with a real engine, whose home and model are those of a sandbox."""
    env = box.env(contract.hermetic, box.work)
    env["PATH"] = f"{executable.parent}:{env['PATH']}"
    passed = [word for name in contract.hermetic.env for word in ("--pass-env", name)]
    with serving(box.root / "data", env, *passed) as served:
        yield served
