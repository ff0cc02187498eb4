"""Servers that get killed, and what they leave behind."""

import signal
import subprocess
import sys
from pathlib import Path

from tests.reference.server_env import ServerEnv

ROOT = Path(__file__).parents[2]
WAIT = """
import time
from turngate_reference.server.store import runs
def wait(run_id, state):
    after = 0
    while runs.find(server.store, run_id).state != state:
        server.store.wait_for_event(run_id, after, 30)
        after = runs.events(server.store, run_id, after, 1000)[-1].id
def process_of(run_id):
    while not (pid := runs.find(server.store, run_id).process.pid):
        time.sleep(0.05)  # a turn begins before the store has its process
    return pid
def met():
    folder = server.engines.find("codex").executable.parent
    (folder / "pid").write_text((folder / "meeting").read_text())
"""


def kill_server(server_env: ServerEnv, code: str) -> None:
    """Run a server in another process that kills itself."""
    argv = [
        sys.executable,
        "-m",
        "tests.reference.killed_server",
        str(server_env.cli_env.data),
        str(server_env.cli_env.path),
    ]
    argv += [str(server_env.cli_env.root / "home"), WAIT + code]
    assert subprocess.run(argv, cwd=ROOT, check=False, timeout=60).returncode == -signal.SIGKILL
