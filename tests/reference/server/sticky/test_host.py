import threading
from pathlib import Path

import psutil

from tests.reference.server.sticky.stage import Heard, Stage, contract
from turngate.model import Mode
from turngate.process import is_alive
from turngate_reference.server.sticky.events import Gone, Opened, TurnEnded
from turngate_reference.server.sticky.host import WORKERS, StickyHost

MANY = 100
ANSWER = """#!/bin/sh
read -r line
echo '{"type": "control_response", "response": {"subtype": "success", "request_id": "turngate-1",
  "response": {"mode": "default"}}}' | tr -d '\\n'
echo
while read -r line; do
  echo '{"type": "result", "subtype": "success", "is_error": false, "session_id": "s-1", "result": "'$$'"}'
done
"""


def test_a_hundred_processes_share_one_thread_and_leave_nothing(tmp_path: Path) -> None:
    """All answer, two turns each; threads do not grow with processes, and none of these, nor a file, is left."""
    us = psutil.Process()
    threads, files = set(threading.enumerate()), us.num_fds()
    stage = Stage(StickyHost(), tmp_path)
    (tmp_path / "fake").write_text(ANSWER)
    (tmp_path / "fake").chmod(0o755)
    known, runs = contract("stream_json"), [f"run-{number}" for number in range(MANY)]
    heard: dict[str, Heard] = {run: stage.open(known, run, Mode.AUTO) for run in runs}
    pids = {run: heard[run].until(Opened).pid for run in runs}
    for _ in range(2):
        for run in runs:
            stage.host.prompt(run, "go on")
        assert {run: int(heard[run].until(TurnEnded).final_text or 0) for run in runs} == pids
    assert len(set(threading.enumerate()) - threads) <= 1 + WORKERS
    stage.host.close()
    for run in runs:
        heard[run].until(Gone)
    assert not [pid for pid in pids.values() if is_alive(pid)]
    # what earlier tests left may have ended meanwhile
    assert not set(threading.enumerate()) - threads
    assert us.num_fds() <= files
