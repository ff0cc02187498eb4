"""Patience: a deadline that begins with the first sign of life."""

import threading
import time

from turngate_probes.harness.mid_turn import Deadline


def test_it_gives_up_after_its_seconds() -> None:
    """Once begun, it calls when the time is over, and not before."""
    gave_up = threading.Event()
    started = time.monotonic()
    with Deadline(0.05, gave_up.set) as patience:
        patience.begin()
        assert gave_up.wait(10)
    assert time.monotonic() - started >= 0.05


def test_it_counts_from_the_first_beginning() -> None:
    """Further signs of life neither restart the clock nor do harm."""
    called: list[int] = []
    gave_up = threading.Event()

    def give_up() -> None:
        called.append(1)
        gave_up.set()

    with Deadline(0.05, give_up) as patience:
        for _ in range(3):
            patience.begin()
        assert gave_up.wait(10)
    assert called == [1]


def test_it_never_begins_by_itself() -> None:
    """Without a sign of life there is no deadline."""
    gave_up = threading.Event()
    with Deadline(0.0, gave_up.set):
        assert not gave_up.wait(0.05)


def test_it_is_over_with_its_block() -> None:
    """What ends in time is not given up afterwards."""
    gave_up = threading.Event()
    with Deadline(0.05, gave_up.set) as patience:
        patience.begin()
    assert not gave_up.wait(0.1)
