"""Official clients yield the same on a real engine and on a simulated one, both with the stub model backend."""

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.clients.install import from_npm, from_pypi
from tests.probes import engines
from turngate.argv.file_slot import SLOT
from turngate.contract.engine_contract import EngineContract
from turngate.contract.launch import PermissionMode
from turngate.model import Ended
from turngate.process.execution import ProcessRequest
from turngate.process.execution import run as run_to_end
from turngate.process.supplied_files import supplied_folder
from turngate_probes.harness.driver import called
from turngate_probes.harness.sandbox import Sandbox, sandbox
from turngate_probes.simulate.simulated_process import install
from turngate_probes.stub_model import Refuse, StubRule, Text

pytestmark = pytest.mark.engines

CLIENTS = Path(__file__).parent / "clients"
PATIENCE = 600
IDS = (
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
    r"\b(msg|toolu|call)_[0-9A-Za-z]{20,}",
    r"\bses_[0-9A-Za-z]{20,}",
    r"write_file__write_file_\d+_\d+",
)
# what depends on the machine, the account or the time, and lists of what a release offers
VOLATILE = frozenset(
    {
        "duration_ms",
        "duration_api_ms",
        "usage",
        "modelUsage",
        "model_usage",
        "total_cost_usd",
        "timestamp",
        "_meta",
        "tools",
        "slash_commands",
        "agents",
        "skills",
        "plugins",
        "rawOutput",
        "configOptions",
    }
)


@dataclass(frozen=True)
class Run:
    """A client's command, and its variables; {executable} is the engine."""

    engine: str
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)


def _claude_python() -> Run:
    packages = from_pypi("claude-agent-sdk==0.2.187")
    # milliseconds; the SDK gives a CLI a minute to start, which a busy machine exceeds
    env = {"PYTHONPATH": str(packages), "CLAUDE_CODE_STREAM_CLOSE_TIMEOUT": "600000"}
    return Run("claude", (sys.executable, str(CLIENTS / "claude.py")), env)


def _messages(engine: str, package: str, module: str, option: str) -> Run:
    env = {"SDK": str(_module(package, module)), "EXECUTABLE_OPTION": option}
    return Run(engine, ("node", str(CLIENTS / "messages.mjs")), env)


def _acp(engine: str, lost: str, *arguments: str, later: bool = False) -> Run:
    sdk = _module("@zed-industries/agent-client-protocol@0.4.5", "dist/acp.js")
    env = {"SDK": str(sdk), "ARGUMENTS": json.dumps(arguments), "LOST": lost, "IN_LATER_MINUTE": "1" if later else ""}
    return Run(engine, ("node", str(CLIENTS / "acp.mjs")), env)


def _acp_python(engine: str, *arguments: str) -> Run:
    packages = from_pypi("agent-client-protocol==0.12.1")
    env = {"PYTHONPATH": str(packages), "ARGUMENTS": json.dumps(arguments)}
    return Run(engine, (sys.executable, str(CLIENTS / "acp_client.py")), env)


def _service(engine: str, package: str, module: str) -> Run:
    return Run(engine, ("node", str(CLIENTS / f"{engine}.mjs")), {"SDK": str(_module(package, module))})


def _acpx(version: str, engine: str, *arguments: str) -> Run:
    agent = " ".join(("{executable}", *arguments))
    options = ("--agent", agent, "--format", "json", "--json-strict", "--approve-all")
    command = ("node", str(_module(f"acpx@{version}", "dist/cli.js")), *options, "exec", "Please write apple.")
    # milliseconds; it gives Gemini 15 seconds to start, which a busy machine exceeds
    return Run(engine, command, {"ACPX_GEMINI_ACP_STARTUP_TIMEOUT_MS": "600000"})


def _module(package: str, path: str) -> Path:
    """Return a file of an npm package (`name@version`)."""
    return from_npm(package) / package.rpartition("@")[0] / path


LOST = "00000000-0000-4000-8000-000000000000"
RUNS: Mapping[str, Callable[[], Run]] = {
    "claude-agent-sdk": _claude_python,
    "@anthropic-ai/claude-agent-sdk": lambda: _messages(
        "claude", "@anthropic-ai/claude-agent-sdk@0.3.330", "sdk.mjs", "pathToClaudeCodeExecutable"
    ),
    "@qwen-code/sdk": lambda: _messages("qwen", "@qwen-code/sdk@0.1.7", "dist/index.mjs", "pathToQwenExecutable"),
    # it finds a session only in a later clock minute
    "agent-client-protocol-gemini": lambda: _acp("gemini", LOST, "--acp", "--model", "stub-asked", later=True),
    "agent-client-protocol-qwen": lambda: _acp("qwen", LOST, "--acp"),
    "agent-client-protocol-opencode": lambda: _acp("opencode", "ses_000000000000AAAAAAAAAAAAAA", "acp"),
    "agent-client-protocol-copilot": lambda: _acp("copilot", LOST, "--acp", "--no-auto-update"),
    "agent-client-protocol-python-gemini": lambda: _acp_python("gemini", "--acp", "--model", "stub-asked"),
    "acpx-gemini": lambda: _acpx("0.1.15", "gemini", "--acp", "--model", "stub-asked"),
    "acpx-new-gemini": lambda: _acpx("0.19.1", "gemini", "--acp", "--model", "stub-asked"),
    "acpx-opencode": lambda: _acpx("0.1.15", "opencode", "acp"),
    "@github/copilot-sdk": lambda: _service("copilot", "@github/copilot-sdk@1.0.14", "dist/index.js"),
    "@opencode-ai/sdk": lambda: _service("opencode", "@opencode-ai/sdk@1.18.33", "dist/index.js"),
}


def _yielded(run: Run, contract: EngineContract, executable: Path, box: Sandbox) -> tuple[list[Any], bool]:
    """Return what a client yields, without ids, and whether the allowed action was done."""
    call = contract.hermetic.tool_call
    assert call
    arguments = {key: box.fill(str(value)) for key, value in call.arguments.items()}
    writes = (StubRule(called(contract, call.name, arguments), contains=word, times=1) for word in ("apple", "banana"))
    titled = StubRule(Text("A title"), contains="Generate a title for this conversation")
    failed = StubRule(Refuse(401), contains="kumquat")
    box.backend.script(titled, *writes, failed, StubRule(Text("hello there")))
    approval = contract.sticky.interactive or PermissionMode()
    files = str(supplied_folder({**contract.guards.files, **approval.files}))
    asking = {name: value.replace(SLOT, files) for name, value in approval.env.items()}
    env = box.env(contract.hermetic, box.work) | asking | dict(run.env)
    env |= {"EXECUTABLE": str(executable), "MODEL": contract.hermetic.model, "PATH": os.environ["PATH"]}
    command = [word.replace("{executable}", str(executable)) for word in run.command]
    # whatever happens to the client, the servers that it started end
    done = run_to_end(ProcessRequest(tuple(command), box.work, env, timeout=PATIENCE))
    assert (done.ended, done.exit_code) == (Ended.EXIT, 0), done.stderr.decode()
    assert box.backend.exchanges()
    said = done.stdout.decode().replace(str(box.root), "<root>")
    # OpenCode titles a call that succeeded by its file, and so only a simulation that knows how it ended could
    said = re.sub(r'"title": ?"[^"]*/touched\.txt"', f'"title":"{call.name}"', said)
    said = re.sub(r"<session_context>.*?</session_context>", "<context>", said)
    for pattern in IDS:
        said = re.sub(pattern, "<id>", said)
    records = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return [_stable(record) for record in records if not _is_passing(record)], (box.work / "touched.txt").exists()


def _is_passing(record: Any) -> bool:
    """Whether a record depends on what a release offers, or reports progress, which an engine may send at any time."""
    update = record.get("params", record).get("update", {})
    kind = update.get("sessionUpdate")
    progress = kind == "tool_call_update" and bool(update["status"] == "in_progress")
    return progress or kind in ("available_commands_update", "usage_update")


def _stable(value: Any) -> Any:
    """Return a value without volatile fields."""
    if isinstance(value, dict):
        return {key: _stable(one) for key, one in value.items() if key not in VOLATILE}
    return [_stable(one) for one in value] if isinstance(value, list) else value


def _within(part: Any, whole: Any) -> bool:
    """Whether a value has nothing that another one lacks."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and _within(value, whole[key]) for key, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) == len(whole) and all(map(_within, part, whole))
    return bool(part == whole)


@pytest.mark.parametrize("client", RUNS)
def test_a_client_yields_the_same_on_a_simulated_engine(client: str, tmp_path: Path) -> None:
    """Each record of the simulated engine has a record of the real one that contains it, in the same order."""
    run = RUNS[client]()
    contract, real = engines.pinned_release(run.engine)
    yielded, acted = [], []
    for name, executable in (("real", real), ("simulated", install(contract, tmp_path / "bin"))):
        with sandbox(contract.hermetic, tmp_path, name, keep=False) as box:
            records, written = _yielded(run, contract, executable, box)
        yielded.append(records)
        acted.append(written)
    expected, simulated = yielded
    assert len(simulated) >= 4
    assert acted[0] == acted[1]
    pairs = zip(simulated, expected, strict=False)
    assert [(one, other) for one, other in pairs if not _within(one, other)] == []
    assert len(simulated) == len(expected)
