import threading
from pathlib import Path

import psutil
import pytest

from tests.reference.server.transports.stage import ReceivedEvents, Stage, contract
from turngate.model import Mode
from turngate.process.family import is_alive
from turngate_reference.server.transports.engine_process import EngineProcess
from turngate_reference.server.transports.events import Gone, Lost, Opened, TurnEnded
from turngate_reference.server.transports.host import WORKERS, ProcessHost

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


@pytest.mark.long
@pytest.mark.nightly
def test_a_hundred_processes_share_one_thread_and_leave_nothing(tmp_path: Path) -> None:
    """All answer two turns; the number of threads doesn't grow, and no process or file is left."""
    us = psutil.Process()
    threads, files = set(threading.enumerate()), us.num_fds()
    stage = Stage(ProcessHost(), tmp_path)
    known, runs = contract("stream_json"), [f"run-{number}" for number in range(MANY)]
    stage.executable(known).write_text(ANSWER)
    received: dict[str, ReceivedEvents] = {run: stage.open(known, Mode.AUTO, run=run) for run in runs}
    pids = {run: received[run].until(Opened).pid for run in runs}
    for _ in range(2):
        for run in runs:
            stage.host.prompt(run, "go on")
        assert {run: int(received[run].until(TurnEnded).final_text or 0) for run in runs} == pids
    assert len(set(threading.enumerate()) - threads) <= 1 + WORKERS
    stage.host.close()
    for run in runs:
        received[run].until(Gone)
    assert not [pid for pid in pids.values() if is_alive(pid)]
    # processes left by earlier tests may have ended meanwhile
    assert not set(threading.enumerate()) - threads
    assert us.num_fds() <= files


def test_an_end_that_was_asked_for_is_no_loss(stage: Stage) -> None:
    """The process tree is ended, only `Gone` is reported, and the run can be opened again."""
    received, opened = stage.opened(contract("app_server"), faults="child=works")
    stage.host.end("run")
    received.until(Gone)
    assert not any(isinstance(event, Lost) for event in received.past)
    assert not is_alive(opened.pid)
    stage.opened(contract("app_server"))


def test_a_run_has_one_process(stage: Stage) -> None:
    """A second process is rejected, and so is any after the host is closed; calls for unknown runs are ignored."""
    received = stage.open(contract("acp"))
    with pytest.raises(ValueError, match="has a process already"):
        stage.open(contract("acp"))
    stage.host.prompt("nobody", "go on")
    stage.host.decide("nobody", "x", "y")
    stage.host.end("nobody")
    stage.host.close()
    received.until(Gone)
    with pytest.raises(ValueError, match="closed"):
        stage.open(contract("acp"))
    stage.host.prompt("run", "go on")


def test_closing_ends_every_process(stage: Stage) -> None:
    """`close` returns when all processes are gone, and may be called twice."""
    known = contract("app_server")
    ready = [stage.open(known, run=f"run-{n}").until(Opened) for n in range(3)]
    stage.host.close()
    stage.host.close()
    assert not any(is_alive(opened.pid) for opened in ready)


def test_a_listener_that_fails_harms_nobody(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """The listener's error is logged, and the run continues."""
    received = ReceivedEvents()

    def listen(event: object) -> None:
        received(event)  # type: ignore[arg-type]
        if isinstance(event, Opened):
            raise RuntimeError("the listener is ill")  # noqa: TRY004 - no matter of types

    stage.host.open("run", stage.request(contract("acp")), listen)
    received.until(Opened)
    assert stage.turn(received, "go on").failure is None
    assert "the listener is ill" in caplog.text


def test_starts_that_take_long_delay_no_end(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process is ended at once, however many others wait for a proof that they are guarded."""
    known = contract("app_server")
    received, opened = stage.opened(known)
    start, go = EngineProcess.start, threading.Event()

    def slowly(process: EngineProcess) -> None:
        go.wait()
        start(process)

    monkeypatch.setattr(EngineProcess, "start", slowly)
    slow = [stage.open(known, run=f"slow-{number}") for number in range(WORKERS)]
    stage.host.end("run")
    try:
        received.until(Gone)
    finally:
        go.set()
    assert not is_alive(opened.pid)
    for each in slow:
        each.until(Opened)
