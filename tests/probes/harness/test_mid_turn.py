"""Actions in the middle of a turn: giving up after a deadline, and sending a signal."""

import signal
import subprocess
import threading
import time

from turngate_probes.harness.mid_turn import MidTurn


def test_it_gives_up_after_its_seconds() -> None:
    """After the first request, it gives up once the time is over, and not before."""
    gave_up = threading.Event()
    started = time.monotonic()
    with MidTurn(None, 0.05, gave_up.set) as turn:
        turn.requested()
        assert gave_up.wait(10)
    assert time.monotonic() - started >= 0.05


def test_it_counts_from_the_first_beginning() -> None:
    """Further requests don't restart the clock, and it gives up only once."""
    called: list[int] = []
    gave_up = threading.Event()

    def give_up() -> None:
        called.append(1)
        gave_up.set()

    with MidTurn(None, 0.05, give_up) as turn:
        for _ in range(3):
            turn.requested()
        assert gave_up.wait(10)
    assert called == [1]


def test_it_never_begins_by_itself() -> None:
    """Without a request there is no deadline."""
    gave_up = threading.Event()
    with MidTurn(None, 0.0, gave_up.set):
        assert not gave_up.wait(0.05)


def test_it_is_over_with_its_block() -> None:
    """A turn that ends in time is not given up afterwards."""
    gave_up = threading.Event()
    with MidTurn(None, 0.05, gave_up.set) as turn:
        turn.requested()
    assert not gave_up.wait(0.1)


def test_a_signal_goes_to_the_process_group_at_the_first_request() -> None:
    """The process group gets the signal at the first request, not before."""
    with subprocess.Popen(("/bin/sleep", "60"), start_new_session=True) as process:
        with MidTurn(signal.SIGTERM, None, lambda: None) as turn:
            turn.started(process.pid)
            assert process.poll() is None
            turn.requested()
        assert process.wait(10) == -signal.SIGTERM


def test_a_request_after_the_turn_is_ignored() -> None:
    """A request after the turn sends no signal, because the process group may belong to another process."""
    with subprocess.Popen(("/bin/sleep", "60"), start_new_session=True) as process:
        with MidTurn(signal.SIGTERM, None, lambda: None) as turn:
            turn.started(process.pid)
        turn.requested()
        assert process.poll() is None
        process.kill()
