"""Handles signals immediately, regardless of which thread receives them."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager


def ending() -> tuple[signal.Signals, ...]:
    """Return the signals that end a command, without SIGHUP if that is ignored, as under nohup."""
    hang_up = () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)
    return (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, *hang_up)


@contextmanager
def handling_signals(numbers: Sequence[signal.Signals], tell: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call `tell` with each of these signals that arrives during the block, in a separate thread, one at a time.

    Call it on the main thread. It replaces the handlers of these signals and the wakeup descriptor.
    """
    # A Python handler runs only on the main thread. While that waits for a lock, only a signal sent to it wakes it, and
    # a thread that starts a process may receive the signal instead. The C handler writes here from any thread.
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
    """Do nothing: only signals with a Python handler are written to the wakeup descriptor."""


def _tell_of(reader: int, numbers: Sequence[signal.Signals], tell: Callable[[signal.Signals], None]) -> None:
    while taken := os.read(reader, 1):
        if taken[0] in numbers:
            tell(signal.Signals(taken[0]))
