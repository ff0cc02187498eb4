import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.patience import PATIENCE
from tests.reference.server.output_schema import hostile
from tests.reference.server.output_schema.hostile import ENDLESS
from turngate.process import TAG
from turngate_reference.server.output_schema import worker
from turngate_reference.server.output_schema.process import CheckProcess
from turngate_reference.server.output_schema.protocol import SchemaCheck, SchemaVerdict

ROOMY = 2**40
GOOD = SchemaCheck({"type": "object"}, ENDLESS, ROOMY)
STUCK = SchemaCheck(hostile.doubling(64), ENDLESS, ROOMY)


@pytest.fixture(name="process")
def _process(monkeypatch: pytest.MonkeyPatch) -> Iterator[CheckProcess]:
    """Provide a process started by a parent that holds secrets and sockets."""
    monkeypatch.setenv("OPENAI_API_KEY", "a secret")
    monkeypatch.setenv(TAG, "/outer")
    with socket.create_server(("127.0.0.1", 0)):
        process = CheckProcess()
        yield process
        process.kill()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc to see into another process")
def test_it_gets_neither_secrets_nor_descriptors(process: CheckProcess) -> None:
    """It gets only the environment that an interpreter needs, the tags of outer runs, and three pipes."""
    assert process.ask(GOOD, PATIENCE) == SchemaVerdict()
    seen = psutil.Process(process.pid)
    environ = seen.environ()
    assert environ.pop(TAG) == "/outer"
    assert environ.keys() <= {"PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "LC_CTYPE"}
    assert seen.num_fds() == 3
    assert not seen.net_connections()
    assert not process.end()


def test_end_leaves_nothing(process: CheckProcess) -> None:
    """The running check ends too, and its caller gets an error."""
    failed: list[BaseException] = []

    def ask() -> None:
        try:
            process.ask(STUCK, PATIENCE)
        except (EOFError, OSError) as error:
            failed.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    main, fork = hostile.check_in_progress(lambda: process.pid)
    process.kill()
    thread.join(PATIENCE)
    assert failed
    process.end()
    assert not main.is_running()
    fork.wait(PATIENCE)
    process.kill()  # without effect


def test_a_process_that_stands_still_is_given_up(process: CheckProcess) -> None:
    """A stopped process uses no CPU time, so the wall clock ends it."""
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(TimeoutError, match=r"more than 0\.1 s"):
        process.ask(GOOD, 0.1)
    process.end()


def test_an_interpreter_that_can_not_run_the_worker_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """`end` returns what it wrote to standard error."""
    monkeypatch.setattr(worker, "__name__", "turngate_reference.nowhere")
    process = CheckProcess()
    with pytest.raises(EOFError):
        process.ask(GOOD, PATIENCE)
    assert "No module named turngate_reference.nowhere" in process.end()
