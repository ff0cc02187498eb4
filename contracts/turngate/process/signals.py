"""Handles signals at once, whichever thread the kernel delivered them to."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager


def ending() -> tuple[signal.Signals, ...]:
    """Return the signals that end a command, without SIGHUP if that is ignored, as under nohup."""
    hang_up = () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)
    return (signal.SIGTERM, signal.SIGINT, *hang_up)


@contextmanager
def heard(numbers: Sequence[signal.Signals], tell: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call `tell` with each of these signals that arrives during the block, in a separate thread, one at a time.

    It is entered on the main thread, and replaces the handlers of these signals and the wakeup descriptor.
    """
    # A handler in Python waits for the main thread. While that waits for a lock, only a signal of its own wakes it,
    # and a thread that starts a process may take the signal instead. What C writes here comes from any thread.
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    thread = threading.Thread(target=_tell_of, args=(reader, numbers, tell), name="turngate-signals", daemon=True)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    handlers = {}
    try:
        thread.start()
        for number in numbers:
            handlers[number] = signal.signal(number, _noted)
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(before)
        os.close(writer)
        thread.join()
        os.close(reader)


def _noted(_number: int, _frame: object) -> None:
    """Do nothing more: a signal without a handler in Python is not written to the wakeup descriptor."""


def _tell_of(reader: int, numbers: Sequence[signal.Signals], tell: Callable[[signal.Signals], None]) -> None:
    while taken := os.read(reader, 1):
        if taken[0] in numbers:
            tell(signal.Signals(taken[0]))
