"""How messages of a service travel: with a header or a line for each on the standard streams, or over HTTP."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.probes.simulate.sticky.services import Served, started
from turngate import load_contract
from turngate_probes.simulate.simulated_process import install


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


def test_turns_on_lines(tmp_path: Path) -> None:
    """A tool runs a turn in a session that it opens; what is not known is refused, and a notification not answered."""

    def of_tool(name: str, **arguments: str) -> dict[str, object]:
        return {"method": "tools/call", "params": {"name": name, "arguments": arguments}}

    asked: list[dict[str, object]] = [
        {"method": "initialize", "params": {}},
        of_tool("codex", prompt="first", cwd="/a"),
        of_tool("codex", prompt="other"),
        of_tool("codex-reply", prompt="lost", threadId="none"),
        of_tool("unknown"),
        of_tool("codex", prompt="x", approvalPolicy="never"),
        of_tool("codex-reply", prompt="x"),
        {"method": "no/such/method"},
    ]
    lines = [json.dumps({"jsonrpc": "2.0", "id": number, **request}) for number, request in enumerate(asked)]
    lines.insert(1, json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    path = install(load_contract("codex", "0.148.0"), tmp_path / "bin")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    command = (path, "mcp-server")
    ran = subprocess.run(
        command, cwd=tmp_path, env=env, input="\n".join(lines), capture_output=True, text=True, check=True
    )
    messages = [json.loads(line) for line in ran.stdout.splitlines()]
    answers = {message["id"]: message.get("result", message.get("error")) for message in messages if "id" in message}
    assert sorted(answers) == [*range(8)]
    threads = [answers[number]["structuredContent"]["threadId"] for number in (1, 2)]
    assert threads[0] != threads[1]
    assert [answers[number].get("isError") for number in (3, 4, 5, 6)] == [True] * 4
    assert answers[7]["code"] == -32601
    events = [message["params"] for message in messages if message.get("method") == "codex/event"]
    of_first = [event["msg"] for event in events if event["_meta"] == {"requestId": 1, "threadId": threads[0]}]
    assert (of_first[0]["cwd"], of_first[-1]["type"]) == ("/a", "task_complete")


@pytest.mark.long
@pytest.mark.parametrize("port", ["none", "70000", "-1"])
def test_an_address_that_can_not_be_used(port: str, tmp_path: Path) -> None:
    """The engine says so and exits."""
    with started("opencode", tmp_path, "serve", f"--port={port}") as process:
        out, _ = process.communicate(timeout=PATIENCE)
        assert (process.returncode, out) == (1, b"")


def test_the_directory_of_a_request(tmp_path: Path) -> None:
    """It is a parameter, or else a header; both may be percent-encoded twice, as the official client does."""
    with started("opencode", tmp_path, "serve") as process:
        served = Served(process)
        for query, header, directory in (
            ("", "", tmp_path),
            ("", "%2Fw%20%C3%B6", "/w ö"),
            ("?directory=/a", "/w", "/a"),
            ("?directory=%252Fw%2520%25C3%25B6", "", "/w ö"),
        ):
            more = {"x-opencode-directory": header} if header else {}
            _, session = served.ask("POST", f"/session{query}", {}, more)
            assert session["directory"] == str(directory), (query, header)
