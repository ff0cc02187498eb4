"""Slots: how many at once, and who goes first."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from turngate_probes.harness.runner import Slots


class Queue:
    """Threads that ask for a slot each, in a known order, while the only one is held."""

    def __init__(self, slots: Slots) -> None:
        self.slots, self.served = slots, list[str]()
        self.threads: list[threading.Thread] = []

    def ask(self, name: str, priority: int) -> None:
        """Let a thread wait for a slot; returns when it stands in the queue."""
        waiting = len(self.slots._waiting)
        thread = threading.Thread(target=self._hold, args=(name, priority))
        self.threads.append(thread)
        thread.start()
        while len(self.slots._waiting) == waiting:
            thread.join(0.001)

    def _hold(self, name: str, priority: int) -> None:
        with self.slots.held(priority):
            self.served.append(name)

    def join(self) -> None:
        """Wait until all were served."""
        for thread in self.threads:
            thread.join()


def test_no_more_than_the_slots_are_held() -> None:
    """Of two slots a third holder has to wait until one is given back."""
    slots, held = Slots(2), threading.Event()

    def third() -> None:
        with slots.held(0):
            held.set()

    with ThreadPoolExecutor() as pool:
        with slots.held(0), slots.held(0):
            pool.submit(third)
            assert not held.wait(0.05)
        assert held.wait(10)


def test_the_more_urgent_goes_first() -> None:
    """Waiters are served by priority, and in order of arrival where it is the same."""
    slots = Slots(1)
    queue = Queue(slots)
    with slots.held(0):
        queue.ask("later", 2)
        queue.ask("first", 1)
        queue.ask("second", 1)
    queue.join()
    assert queue.served == ["first", "second", "later"]


def test_a_slot_comes_back_after_an_error() -> None:
    """An exception in the block gives the slot back."""
    slots = Slots(1)
    with pytest.raises(ZeroDivisionError), slots.held(0):
        raise ZeroDivisionError
    with slots.held(0):
        pass
