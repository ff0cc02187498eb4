"""Simulated services: how a test starts one and asks it."""

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE
from turngate import load_contract
from turngate_probes.releases.pins import pinned_version
from turngate_probes.simulate.simulated_process import install

JSON = {"Content-Type": "application/json"}


@contextmanager
def started(engine: str, root: Path, *arguments: str, **more: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a simulated engine in a folder, whose home it is, and end it."""
    contract = load_contract(engine, pinned_version(engine))
    interactive = contract.sticky.interactive
    env = {"PATH": os.environ["PATH"], "HOME": str(root), **(interactive.env if interactive else {}), **more}
    command: tuple[str | Path, ...] = (install(contract, root / "bin"), *arguments)
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=root, env=env, stdin=pipe, stdout=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


class Served:
    """A simulated OpenCode that listens."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout
        line = process.stdout.readline().decode()
        match = re.search(r"http://([\w.]+):(\d+)$", line.strip())
        assert match, line
        self.address = (match[1], int(match[2]))

    def ask(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send a request and return the status and the body of the response."""
        connection = HTTPConnection(*self.address, timeout=PATIENCE)
        connection.request(method, path, None if body is None else json.dumps(body), {**JSON, **(headers or {})})
        response = connection.getresponse()
        data = response.read()
        connection.close()
        return response.status, json.loads(data) if data else None

    def events(self) -> Iterator[Mapping[str, Any]]:
        """Yield events as they come."""
        connection = HTTPConnection(*self.address, timeout=PATIENCE)
        connection.request("GET", "/event")
        for line in connection.getresponse():
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))


def parts(text: str) -> dict[str, object]:
    """Return the body of a prompt."""
    return {"parts": [{"type": "text", "text": text}]}
