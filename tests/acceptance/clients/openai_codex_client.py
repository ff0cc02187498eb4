"""Prints what openai-codex yields for some turns: python openai_codex_client.py EXECUTABLE DIRECTORY."""

import json
import sys
from typing import Any

from openai_codex import ApprovalMode, Codex, CodexConfig, Sandbox  # type: ignore[import-not-found]

executable, work = sys.argv[1:]
result: dict[str, Any] = {}


def client() -> Any:
    """Start another process of the engine."""
    return Codex(CodexConfig(codex_bin=executable, cwd=work))


def summary(turn: Any) -> list[Any]:
    """Return what a turn yielded."""
    return [turn.final_response, str(turn.status), [item.root.type for item in turn.items]]


with client() as codex:
    thread = codex.thread_start(cwd=work, sandbox=Sandbox.workspace_write, approval_mode=ApprovalMode.deny_all)
    result |= {"first": summary(thread.run("Remember the plum.")), "tool": summary(thread.run("Write."))}
with client() as codex:
    again = codex.thread_resume(thread.id)
    result |= {"same": again.id == thread.id, "resumed": summary(again.run("Again."))}
    try:
        codex.thread_resume("00000000-0000-7000-8000-000000000000")
    except Exception as error:  # noqa: BLE001 - its type is what the test compares
        result["lost"] = [type(error).__name__, str(error)]
    try:
        codex.thread_start(cwd=work).run("kumquat")
    except Exception as error:  # noqa: BLE001 - its type is what the test compares
        result["failed"] = [type(error).__name__, "refused as scripted" in str(error)]
sys.stdout.write(json.dumps(result))
