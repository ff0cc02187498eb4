"""Servers that are killed, and what they leave."""

import signal
import subprocess
import sys
from pathlib import Path

from tests.reference.server_env import House

ROOT = Path(__file__).parents[2]
WAIT = """
from turngate_reference.server.store import runs
def wait(run_id, state):
    after = 0
    while runs.find(server.store, run_id).state != state:
        server.store.wait_for_event(run_id, after, 30)
        after = runs.events(server.store, run_id, after, 1000)[-1].id
def met():
    folder = server.engines.find("codex").executable.parent
    (folder / "pid").write_text((folder / "meeting").read_text())
"""


def kill_server(house: House, code: str) -> None:
    """Run a server in another process until it kills itself."""
    argv = [sys.executable, "-m", "tests.reference.killed_server", str(house.desk.data), str(house.desk.path)]
    argv += [str(house.desk.root / "home"), WAIT + code]
    assert subprocess.run(argv, cwd=ROOT, check=False, timeout=60).returncode == -signal.SIGKILL
