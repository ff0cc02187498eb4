import signal
import threading
from pathlib import Path

from pytest_subprocess import FakeProcess

from tests.contracts.process.fake_tree import FakeTree
from turngate.process import Ended, ProcessRequest, Stop, run

REQUEST = ProcessRequest(("engine", "exec"), Path("/"), {}, stdin=b"prompt")


def test_run_reads_a_fake_process(fp: FakeProcess) -> None:
    """A fake process with in-memory pipes is run like a real one."""
    fp.register(["engine", "exec"], stdout=b"out", stderr=b"err", returncode=5)
    outcome = run(REQUEST, new_tree=FakeTree)
    assert (outcome.ended, outcome.exit_code) == (Ended.EXIT, 5)
    assert (outcome.stdout, outcome.stderr) == (b"out", b"err")


def test_fake_process_is_stopped_through_its_tree(fp: FakeProcess) -> None:
    """A stop reaches the fake alone: it gets the signal, and no real process does."""
    stop, told = Stop(), threading.Event()

    def hang(_: object) -> None:
        stop.set()
        assert told.wait(60)

    recorder = fp.register(
        ["engine", "exec"],
        callback=hang,
        signal_callback=lambda *_: told.set(),
    )
    assert run(REQUEST, stop=stop, new_tree=FakeTree).ended is Ended.STOPPED
    assert recorder.first_call is not None
    assert recorder.first_call.received_signals() == (signal.SIGTERM,)
