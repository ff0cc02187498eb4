"""A simulated engine whose process is kept, as a process."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.probes.simulate.played import at_known_release
from turngate_probes.simulate.process import install
from turngate_probes.simulate.sticky import faults


def started(folder: Path, *faulty: str) -> "subprocess.Popen[bytes]":
    """Start the app server."""
    executable = install(at_known_release("codex"), folder, faulty)
    pipe, env = subprocess.PIPE, {"HOME": str(folder)}
    return subprocess.Popen([executable, "app-server"], stdin=pipe, stdout=pipe, env=env, cwd=folder)


def answer(process: "subprocess.Popen[bytes]", method: str) -> Any:
    """Ask it something."""
    assert process.stdin
    assert process.stdout
    process.stdin.write(json.dumps({"id": 1, "method": method, "params": {}}).encode() + b"\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it(number: signal.Signals, tmp_path: Path) -> None:
    """At once, while it waits for its client."""
    with started(tmp_path) as process:
        answer(process, "initialize")
        process.send_signal(number)
        assert process.wait(30) is not None


def test_what_ignores_termination_needs_a_kill(tmp_path: Path) -> None:
    """It answers after both signals."""
    with started(tmp_path, faults.IGNORES_TERMINATION) as process:
        answer(process, "initialize")
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        assert "thread" in answer(process, "thread/start")["result"]
        process.kill()
        assert process.wait(30) == -signal.SIGKILL
