"""Actions in the middle of a turn: giving up after a deadline, and sending a signal."""

import signal
import subprocess
import threading
import time
from collections.abc import Callable
from unittest.mock import patch

import pytest

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


def test_without_a_request_it_gives_up_after_the_start_and_its_seconds() -> None:
    """With a limit for the start, a turn that makes no request is given up after that and its own seconds."""
    gave_up = threading.Event()
    with MidTurn(None, 0.05, gave_up.set, lambda: 0.05) as turn:
        began = time.monotonic()
        turn.started(0)
        assert gave_up.wait(10)
    assert time.monotonic() - began >= 0.1


def test_a_longer_start_is_waited_for() -> None:
    """If the limit for the start has grown when it is reached, the wait continues."""
    limits, gave_up = [0.01, 0.1, 0.1], threading.Event()
    with MidTurn(None, 0.01, gave_up.set, lambda: limits.pop(0)) as turn:
        began = time.monotonic()
        turn.started(0)
        assert gave_up.wait(10)
    assert time.monotonic() - began >= 0.11
    assert limits == []


@pytest.mark.parametrize("act", [MidTurn.requested, MidTurn.over])
def test_a_request_or_the_end_of_the_turn_ends_the_wait_for_a_start(act: Callable[[MidTurn], None]) -> None:
    """After a first request its own seconds count, and after the end of the turn nothing does."""
    timers, limits, gave_up = list[threading.Timer](), [30.0, -100.0], list[int]()

    def keep(timer: threading.Timer) -> None:
        timers.append(timer)

    with (
        patch.object(threading.Timer, "start", keep),
        MidTurn(None, 60.0, lambda: gave_up.append(1), lambda: limits.pop(0)) as turn,
    ):
        turn.started(0)
        act(turn)
        (of_start, *others) = timers
        of_start.function()  # as if it had fired before it was canceled
    assert 80 < of_start.interval <= 90
    assert of_start.finished.is_set()
    assert [timer.interval for timer in others] == ([60.0] if act is MidTurn.requested else [])
    assert gave_up == []


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
