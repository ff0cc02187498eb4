"""Engines that serve many sessions: over HTTP, and on the standard streams with a header for each message."""

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

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

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Send a request and return the status and the body of the response."""
        connection = HTTPConnection(*self.address, timeout=PATIENCE)
        connection.request(method, path, None if body is None else json.dumps(body), JSON)
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


def test_turns_over_http(tmp_path: Path) -> None:
    """A turn ends with its answer; the next one asks, and acts after the decision; another process goes on."""
    with started("opencode", tmp_path, "serve", "--port=0") as process:
        served = Served(process)
        events = served.events()
        assert next(events)["type"] == "server.connected"
        _, session = served.ask("POST", "/session", {})
        path = f"/session/{session['id']}"
        _, first = served.ask("POST", f"{path}/message", parts("first"))
        assert "ask_user" in first["parts"][1]["text"]
        assert served.ask("POST", f"{path}/prompt_async", parts("red"))[0] == 204
        asked = next(event for event in events if event["type"] == "permission.asked")["properties"]
        assert served.ask("POST", f"{path}/permissions/{asked['id']}", {"response": "once"}) == (200, True)
        assert any(event["type"] == "session.idle" for event in events)
    assert (tmp_path / "touched.txt").exists()
    with started("opencode", tmp_path, "serve", "--port", "0") as process:
        served = Served(process)
        roles = [message["info"]["role"] for message in served.ask("GET", f"{path}/message")[1]]
        assert roles[:2] == ["user", "assistant"]
        assert served.ask("GET", "/session/ses_none")[0] == 404
        assert served.ask("GET", "/no-such-path")[0] == 404
        assert served.ask("DELETE", path) == (200, True)
        assert served.ask("GET", path)[0] == 404


@pytest.mark.parametrize("fault", ["crash", "omits-end"])
def test_a_turn_over_http_that_never_ends(fault: str, tmp_path: Path) -> None:
    """The connection closes without a response."""
    contract = load_contract("opencode", pinned_version("opencode"))
    path = install(contract, tmp_path / "bin", (fault,))
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with subprocess.Popen((path, "serve"), cwd=tmp_path, env=env, stdout=subprocess.PIPE) as process:
        served = Served(process)
        _, session = served.ask("POST", "/session", {})
        with pytest.raises(ConnectionError):
            served.ask("POST", f"/session/{session['id']}/message", parts("first"))
        assert (process.wait(PATIENCE) == 0) is (fault == "omits-end")


def framed(number: int, method: str, **params: object) -> bytes:
    """Return a request with its header."""
    body = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()
    return b"Content-Length: %d\r\n\r\n" % len(body) + body


def test_turns_with_headers(tmp_path: Path) -> None:
    """Each message has a header; a session is resumed by its id, an unknown one or an unknown method is an error."""
    requests = [
        framed(1, "connect"),
        framed(2, "session.create", sessionId="one"),
        framed(3, "session.send", sessionId="one", prompt="first"),
        framed(4, "session.resume", sessionId="none"),
        framed(5, "no.such.method"),
        framed(6, "runtime.shutdown"),
    ]
    with started("copilot", tmp_path, "--headless", "--stdio") as process:
        out, _ = process.communicate(b"".join(requests), PATIENCE)
        assert process.returncode == 0
    bodies = [json.loads(body) for body in re.split(rb"Content-Length: \d+\r\n\r\n", out)[1:]]
    answers = {body["id"]: body.get("result", body.get("error")) for body in bodies if "id" in body}
    assert (answers[1]["protocolVersion"], answers[2]["sessionId"]) == (3, "one")
    assert "Session not found: none" in answers[4]["message"]
    assert answers[5]["code"] == -32601
    events = [body["params"]["event"]["type"] for body in bodies if body.get("method") == "session.event"]
    assert (events[0], events[-1], "assistant.message" in events) == ("session.start", "session.idle", True)


@pytest.mark.parametrize("port", ["none", "70000", "-1"])
def test_an_address_that_can_not_be_used(port: str, tmp_path: Path) -> None:
    """The engine says so and exits."""
    with started("opencode", tmp_path, "serve", f"--port={port}") as process:
        out, _ = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out) == (1, b"")
