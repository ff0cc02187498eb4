"""Runs `turngate serve` for a browser: started, killed and started again at one address."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE
from tests.reference.cli_env import CliEnv, Play

TURNGATE = str(Path(sys.executable).with_name("turngate"))


@dataclass
class PageServer:
    """A server with its data in `folder` and the engines on the PATH of `env`; `lines` is what it printed at first."""

    folder: Path
    env: Mapping[str, str]
    options: tuple[str, ...] = ()
    url: str = ""
    lines: tuple[str, ...] = ()

    def start(self) -> None:
        """Start it, at the same address as before."""
        port = self.url.rpartition(":")[2] or "0"
        command = [TURNGATE, "serve", "--port", port, "--data-dir", str(self.folder), "--verify", "off", *self.options]
        self._process = subprocess.Popen(command, env=dict(self.env), stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        count = 1 if "--no-token" in self.options else 2
        self.lines = tuple(self._process.stdout.readline() for _ in range(count))
        address = re.search(r"http://\S+", self.lines[0])
        assert address
        self.url = address[0]

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self._end(self._process.kill)

    def end(self) -> None:
        """Shut it down with its engines."""
        self._end(self._process.terminate)

    def call(self, path: str, body: Any = None) -> Any:
        """Call the API."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def create(self, **request: Any) -> str:
        """Create a run; return its id."""
        return str(self.call("/v1/runs", request)["run_id"])

    def follow(self, run_id: str, state: str) -> dict[str, Any]:
        """Wait until a run reaches a state; return the run."""
        with urllib.request.urlopen(f"{self.url}/v1/runs/{run_id}/events", timeout=PATIENCE) as events:
            assert any(f'"state": "{state}"'.encode() in line for line in events)
        run: dict[str, Any] = self.call(f"/v1/runs/{run_id}")
        return run

    def _end(self, by: Any) -> None:
        by()
        self._process.wait(PATIENCE)
        if self._process.stdout:
            self._process.stdout.close()


def simulated(folder: Path, *engines: str) -> dict[str, str]:
    """Install simulated releases in a folder; return an environment with them on PATH."""
    for engine in engines:
        subprocess.run(
            [TURNGATE, "simulate", engine, "--install", str(folder / "bin")], check=True, capture_output=True
        )
    (folder / "home").mkdir(exist_ok=True)
    return {
        "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
        "HOME": str(folder / "home"),
        "LANG": os.environ.get("LANG", "C"),
    }


def scripted_codex(folder: Path, *plays: Play) -> dict[str, str]:
    """Install a Codex that plays these turns, one per call; return an environment with it on PATH."""
    (folder / "home").mkdir(exist_ok=True)
    # CliEnv needs no capture to install an engine
    CliEnv(folder, None).engine("codex", *plays)  # type: ignore[arg-type]
    return {"PATH": f"{folder / 'path'}:/usr/bin:/bin", "HOME": str(folder / "home"), "LANG": "C.UTF-8"}


def asking(kind: str, prompt: str, **more: Any) -> str:
    """Return the envelope of a question."""
    empty: dict[str, Any] = {"options": [], "required_fields": [], "context": {}}
    return json.dumps({"outcome": "ask_user", "interaction": {"kind": kind, "prompt": prompt, **empty, **more}})


@contextmanager
def page_server(folder: Path, env: Mapping[str, str], *options: str) -> Iterator[PageServer]:
    """Run a server for the block."""
    server = PageServer(folder, env, options)
    server.start()
    try:
        yield server
    finally:
        server.end()
