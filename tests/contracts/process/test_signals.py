"""Signals are handled in a separate thread, whichever thread received them."""

import signal
import threading

import pytest

from tests.patience import PATIENCE
from turngate.process.signals import handling_signals

pytestmark = pytest.mark.processes

BOTH = (signal.SIGINT, signal.SIGTERM)


class Ear:
    """Records each signal and its thread; `again` is set at the second signal."""

    def __init__(self) -> None:
        self.reported: list[signal.Signals] = []
        self.threads: set[threading.Thread] = set()
        self.once, self.again = threading.Event(), threading.Event()

    def tell(self, number: signal.Signals) -> None:
        """Record a signal."""
        self.reported.append(number)
        self.threads.add(threading.current_thread())
        (self.again if self.once.is_set() else self.once).set()


@pytest.mark.parametrize("number", BOTH)
def test_a_signal_is_told_on_another_thread(number: signal.Signals) -> None:
    """Each of the named signals is passed on, as often as it arrives."""
    ear = Ear()
    with handling_signals(BOTH, ear.tell):
        signal.raise_signal(number)
        assert ear.once.wait(PATIENCE)
        signal.raise_signal(number)
        assert ear.again.wait(PATIENCE)
    assert ear.reported == [number, number]
    assert threading.main_thread() not in ear.threads


def test_a_signal_that_another_thread_took_is_told_while_the_main_one_waits() -> None:
    """A signal that another thread received is passed on while the main thread waits and runs no Python handlers."""
    waiting = threading.Condition()

    def take_it() -> None:
        with waiting:  # arrives only once the main thread waits
            signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    def tell(_: signal.Signals) -> None:
        with waiting:
            waiting.notify()

    with handling_signals(BOTH, tell), waiting:
        threading.Thread(target=take_it, daemon=True).start()
        assert waiting.wait(PATIENCE)


def test_all_is_as_before_afterwards() -> None:
    """After the block, handlers and wakeup descriptor are restored, the thread has ended, and no signal was lost."""
    handlers = [signal.getsignal(number) for number in BOTH]
    ear = Ear()
    with handling_signals(BOTH, ear.tell):
        signal.raise_signal(signal.SIGTERM)
    assert ear.reported == [signal.SIGTERM]
    assert [signal.getsignal(number) for number in BOTH] == handlers
    assert signal.set_wakeup_fd(-1) == -1
    assert "turngate-signals" not in {thread.name for thread in threading.enumerate()}


def test_other_signals_are_none_of_its_business() -> None:
    """Handlers of other signals are called as usual."""
    ear, seen = Ear(), list[int]()
    before = signal.signal(signal.SIGUSR1, lambda number, _: seen.append(number))
    try:
        with handling_signals(BOTH, ear.tell):
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (seen, ear.reported) == ([signal.SIGUSR1], [])
