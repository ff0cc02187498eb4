"""Actions in the middle of a turn: giving up after a deadline, and sending a signal."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from turngate_probes.harness import driver
from turngate_probes.harness.driver import TurnInterruption


class Timers:
    """Timers that a test fires, on a clock that stands still otherwise."""

    def __init__(self) -> None:
        self.now, self.started = 0.0, list[threading.Timer]()

    def fire(self) -> None:
        """Let the newest timer's seconds pass."""
        self.now += self.started[-1].interval
        self.started[-1].function()


@pytest.fixture(name="timers")
def _timers(monkeypatch: pytest.MonkeyPatch) -> Timers:
    timers = Timers()

    def keep(timer: threading.Timer) -> None:
        timers.started.append(timer)

    monkeypatch.setattr(threading.Timer, "start", keep)
    monkeypatch.setattr(driver, "time", SimpleNamespace(monotonic=lambda: timers.now))
    return timers


def test_it_gives_up_after_its_seconds() -> None:
    """After the first request, it gives up once the time is over, and not before."""
    gave_up = threading.Event()
    started = time.monotonic()
    with TurnInterruption(None, 0.05, gave_up.set) as turn:
        turn.requested()
        assert gave_up.wait(60)
    assert time.monotonic() - started >= 0.05


def test_a_call_starts_the_clock_anew(timers: Timers) -> None:
    """Each call gets the whole time, and what follows without one gets no more."""
    with TurnInterruption(None, 45.0, lambda: None) as turn:
        for is_call in (True, True, False):
            turn.requested(is_call=is_call)
        assert [timer.interval for timer in timers.started] == [45.0, 45.0]
        assert timers.started[0].finished.is_set()
        assert not timers.started[1].finished.is_set()


def test_it_counts_from_the_first_beginning() -> None:
    """Further requests don't restart the clock, and it gives up only once."""
    called: list[int] = []
    gave_up = threading.Event()

    def give_up() -> None:
        called.append(1)
        gave_up.set()

    with TurnInterruption(None, 0.05, give_up) as turn:
        for _ in range(3):
            turn.requested()
        assert gave_up.wait(60)
    assert called == [1]


def test_it_never_begins_by_itself() -> None:
    """Without a request there is no deadline."""
    gave_up = threading.Event()
    with TurnInterruption(None, 0.0, gave_up.set):
        assert not gave_up.wait(0.05)


def test_it_is_over_with_its_block(timers: Timers) -> None:
    """A turn that ends in time is not given up afterwards."""
    with TurnInterruption(None, 5.0, lambda: None) as turn:
        turn.requested()
        (timer,) = timers.started
        assert not timer.finished.is_set()
    assert timer.finished.is_set()


def test_without_a_request_it_gives_up_after_the_start_and_its_seconds() -> None:
    """With a limit for the start, a turn that makes no request is given up after that and its own seconds."""
    gave_up = threading.Event()
    with TurnInterruption(None, 0.05, gave_up.set, lambda: 0.05) as turn:
        began = time.monotonic()
        turn.started(0)
        assert gave_up.wait(60)
    assert time.monotonic() - began >= 0.1


def test_a_longer_start_is_waited_for(timers: Timers) -> None:
    """If the limit for the start has grown when it is reached, the wait continues."""
    limits, gave_up = [10.0, 30.0, 30.0], list[int]()
    with TurnInterruption(None, 5.0, lambda: gave_up.append(1), lambda: limits.pop(0)) as turn:
        turn.started(0)
        for _ in range(2):
            assert gave_up == []
            timers.fire()
    assert [timer.interval for timer in timers.started] == [15.0, 20.0]
    assert (gave_up, limits) == ([1], [])


@pytest.mark.parametrize("act", [TurnInterruption.requested, TurnInterruption.over])
def test_a_request_or_the_end_of_the_turn_ends_the_wait_for_a_start(
    timers: Timers, act: Callable[[TurnInterruption], None]
) -> None:
    """After a first request its own seconds count, and after the end of the turn nothing does."""
    limits, gave_up = [30.0, -100.0], list[int]()
    with TurnInterruption(None, 60.0, lambda: gave_up.append(1), lambda: limits.pop(0)) as turn:
        turn.started(0)
        act(turn)
        (of_start, *others) = timers.started
        of_start.function()  # as if it had fired before it was canceled
    assert of_start.interval == 90.0
    assert of_start.finished.is_set()
    assert [timer.interval for timer in others] == ([60.0] if act is TurnInterruption.requested else [])
    assert gave_up == []


def test_a_signal_goes_to_the_process_group_at_the_first_request() -> None:
    """The process group gets the signal at the first request, not before."""
    with subprocess.Popen(("/bin/sleep", "60"), start_new_session=True) as process:
        with TurnInterruption(signal.SIGTERM, None, lambda: None) as turn:
            turn.started(process.pid)
            assert process.poll() is None
            turn.requested()
        assert process.wait(60) == -signal.SIGTERM


def test_a_request_after_the_turn_is_ignored() -> None:
    """A request after the turn sends no signal, because the process group may belong to another process."""
    with subprocess.Popen(("/bin/sleep", "60"), start_new_session=True) as process:
        with TurnInterruption(signal.SIGTERM, None, lambda: None) as turn:
            turn.started(process.pid)
        turn.requested()
        assert process.poll() is None
        process.kill()


@pytest.mark.parametrize("moment", ["call", "end"])
def test_a_signal_comes_at_its_moment_and_once(moment: driver.Moment) -> None:
    """A signal for a later moment is sent at neither the request nor another moment, and only once."""
    sent = list[signal.Signals]()
    with (
        pytest.MonkeyPatch.context() as patch,
        TurnInterruption(signal.SIGKILL, None, lambda: None, moment=moment) as turn,
    ):
        patch.setattr(os, "killpg", lambda _, number: sent.append(number))
        turn.started(4711)
        turn.requested()
        turn.strike("end" if moment == "call" else "call")
        assert sent == []
        turn.over()
        turn.strike(moment)
        turn.strike(moment)
    assert sent == [signal.SIGKILL]


def test_a_request_without_the_prompt_sends_no_signal() -> None:
    """What an engine asks before its prompt is part of the session is not the moment for a kill."""
    with subprocess.Popen(("/bin/sleep", "60"), start_new_session=True) as process:
        with TurnInterruption(signal.SIGTERM, None, lambda: None) as turn:
            turn.started(process.pid)
            turn.requested(with_prompt=False)
            assert process.poll() is None
            turn.requested()
        assert process.wait(60) == -signal.SIGTERM
