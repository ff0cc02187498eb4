"""Helpers for a server whose Codex is a fake sticky process."""

import time
from typing import Any

from tests.fakes.executables import simulated
from tests.patience import PATIENCE
from tests.reference.server_env import ServerEnv
from turngate.contract import load


def put_engine(server_env: ServerEnv) -> None:
    """Put the sticky codex on PATH."""
    simulated(load.contract("codex").at("0.169.0"), server_env.cli_env.path / "codex")


def create(server_env: ServerEnv, do: str, mode: str = "interactive", **more: Any) -> str:
    """Create a sticky run whose agent does this; return its id."""
    return server_env.create(f"do: {do}", execution_mode=mode, interactive_profile="sticky_process", **more)


def pid_of(server_env: ServerEnv, run_id: str) -> int:
    """Return the process id of a run."""
    process = server_env.run(run_id).process
    assert process
    assert process.pid
    return process.pid


def move_deadlines(server_env: ServerEnv, seconds: float) -> None:
    """Let the deadlines of sticky runs come this much earlier, instead of waiting for them."""
    inbox = server_env.server._sticky._inbox
    inbox._due.timefunc = lambda: time.monotonic() + seconds
    inbox.put("no run", lambda: None)  # so that its thread looks at the clock


def slots_are_free(server_env: ServerEnv) -> bool:
    """Wait until no slot is in use."""
    return server_env.server.dispatcher.wait_until_free(PATIENCE)
