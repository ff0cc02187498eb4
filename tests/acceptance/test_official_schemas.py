"""Each message of a simulated engine is valid by the schema that its vendor or its protocol publishes."""

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft202012Validator

from tests.acceptance.clients.install import from_npm
from tests.probes import engines
from tests.probes.simulate.sticky.client import Message, RawClient, calls
from tests.probes.simulate.sticky.services import Served, parts, started
from turngate import EngineContract, load_contract
from turngate_probes.releases.pins import pinned_version
from turngate_probes.simulate.backend import Failed

pytestmark = pytest.mark.engines
ACP_ENGINES = ("copilot", "gemini", "iflow", "kilo", "opencode", "qwen")
# a response by the method of its request -> its schema among those that the engine writes
RESPONSES = {
    "initialize": "v1/InitializeResponse",
    "thread/start": "v2/ThreadStartResponse",
    "thread/resume": "v2/ThreadResumeResponse",
    "turn/start": "v2/TurnStartResponse",
}


def _said(contract: EngineContract, root: Path, load: str, key: str) -> Iterator[tuple[str, Message]]:
    """Yield each message with its method, or that of its request: of turns, calls, a failure, and loaded sessions."""
    tool, failed = calls(contract), Failed("401", "refused", 401)
    answers = (tool, "one", tool, "two")
    clients = [RawClient(contract, root, answers, allow=allow) for allow in (True, False)]
    clients.append(RawClient(contract, root, (failed,), ("fail",)))
    for client in clients:
        client.run()
    handle = clients[0].ids()[0]
    for one in (handle, "x"):
        params = {key: one, "cwd": str(root), "mcpServers": []}
        line = json.dumps({"id": 9, "method": load, "params": params}).encode()
        clients.append(RawClient(contract, root, prompts=(), lines=(line,)))
    for client in clients[-2:]:
        client.run()
    for client in clients:
        methods = {9: load} | client.sent
        yield from ((str(one.get("method") or methods[one["id"]]), one) for one in client.said)


def _strict(schema: Any) -> Any:
    """Require every property, as the real engine sends each of them."""
    if isinstance(schema, list):
        return [_strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    stricter = {key: _strict(part) for key, part in schema.items()}
    properties = stricter.get("properties")
    return stricter | ({"required": sorted(properties)} if isinstance(properties, dict) else {})


def test_the_app_server_sends_what_its_schema_describes(tmp_path: Path) -> None:
    """Each notification and each response of the simulated Codex has every property of the real one's schema."""
    contract, executable = engines.pinned_release("codex")
    command = (executable, "app-server", "generate-json-schema", "--out", tmp_path / "schema")
    subprocess.run(command, check=True, capture_output=True, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})

    def schema(name: str) -> Any:
        return json.loads((tmp_path / "schema" / f"{name}.json").read_text("utf-8"))

    notified, asked = Draft7Validator(_strict(schema("ServerNotification"))), Draft7Validator(schema("ServerRequest"))
    answered = {method: Draft7Validator(_strict(schema(name))) for method, name in RESPONSES.items()}
    # the sandbox is one of several objects, whose properties the engine leaves out where they have their defaults
    answered |= {method: Draft7Validator(schema(RESPONSES[method])) for method in ("thread/start", "thread/resume")}
    seen = set()
    for method, message in _said(contract, tmp_path, "thread/resume", "threadId"):
        seen.add(method)
        if "error" not in message and "result" in message:
            answered[method].validate(message["result"])
        elif "error" not in message:
            (asked if "id" in message else notified).validate(message)
    assert {*RESPONSES, "turn/completed", "item/commandExecution/requestApproval"} <= seen


@pytest.mark.parametrize("engine", ACP_ENGINES)
def test_an_agent_sends_what_the_protocol_describes(engine: str, tmp_path: Path) -> None:
    """Each message is valid by the schema of the Agent Client Protocol."""
    folder = from_npm("@agentclientprotocol/sdk@2.4.0") / "@agentclientprotocol/sdk/schema/v1"
    schema = json.loads((folder / "schema.json").read_text("utf-8"))
    described = {name: one["x-method"] for name, one in schema["$defs"].items() if "x-method" in one}
    kinds = ("Request", "Response", "Notification")
    names = {(method, kind): name for name, method in described.items() for kind in kinds if name.endswith(kind)}
    contract = load_contract(engine, pinned_version(engine))
    seen = set()
    for method, message in _said(contract, tmp_path, "session/load", "sessionId"):
        seen.add(method)
        kind, part = _part(message)
        name = "Error" if kind == "Error" else names[method, kind]
        Draft202012Validator({**schema["$defs"][name], "$defs": schema["$defs"]}).validate(part)
    assert {"initialize", "session/new", "session/prompt", "session/update", "session/request_permission"} <= seen


def test_the_server_sends_what_its_description_says(tmp_path: Path) -> None:
    """Each response and each event of a simulated `opencode serve` is valid by the real one's OpenAPI document."""
    executable = engines.pinned_release("opencode")[1]
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    generated = subprocess.run((executable, "generate"), check=True, capture_output=True, env=env, cwd=tmp_path).stdout
    document = json.loads(generated)

    def validated(schema: Mapping[str, Any], value: object) -> None:
        Draft202012Validator({**schema, "components": document["components"]}).validate(value)

    def asked(method: str, path: str, body: object = None) -> Any:
        status, answer = served.ask(method, path, body)
        (responses,) = (
            operations[method.lower()]["responses"]
            for template, operations in document["paths"].items()
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path) and method.lower() in operations
            if template.count("{") == len(re.findall(r"/(?:ses|per)_", path))
        )
        content = responses[str(status)].get("content")
        if content:
            validated(content["application/json"]["schema"], answer)
        return answer

    with started("opencode", tmp_path, "serve", "--port=0") as process:
        served = Served(process)
        events = served.events()
        seen = [next(events)]
        path = f"/session/{asked('POST', '/session', {})['id']}"
        asked("POST", f"{path}/message", parts("first"))
        asked("POST", f"{path}/prompt_async", parts("red"))
        while seen[-1]["type"] != "permission.asked":
            seen.append(next(events))
        asked("POST", f"{path}/permissions/{seen[-1]['properties']['id']}", {"response": "once"})
        while seen[-1]["type"] != "session.idle":
            seen.append(next(events))
        for known in (
            "/session",
            path,
            f"{path}/message",
            "/session/status",
            "/session/ses_x",
        ):
            asked("GET", known)
        asked("POST", f"{path}/abort")
        asked("DELETE", path)
    for event in seen:
        validated({"$ref": "#/components/schemas/Event"}, event)
    assert {"session.created", "message.part.updated", "permission.replied"} <= {event["type"] for event in seen}


def _part(message: Mapping[str, Any]) -> tuple[str, Any]:
    """Return which kind of message it is, and what of it the schema describes."""
    if "error" in message:
        return "Error", message["error"]
    if "result" in message:
        return "Response", message["result"]
    return "Request" if "id" in message else "Notification", message["params"]
