"""A process that goes on in a new process and a new session every 10 ms, for a minute at most.

It is no fault of the simulated engine because no engine hops; it shows that the end of a tree of processes is complete.

It holds a fifo open, so that a test sees when all of it is gone: `python hopper.py FIFO [deaf] [bare] [tired]`. A deaf
one ignores SIGTERM, a bare one has no environment, and a tired one stays in one process after the first hops.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

INTERVAL = 0.01
LONGEST = 60.0  # seconds
MOST = 6000
FIRST = 20  # hops until `leave` returns


def leave(fifo: str, *kinds: str) -> None:
    """Start a hopper, and return once it hops."""
    reader, writer = os.pipe()
    if os.fork():
        os.close(writer)
        told = 0
        while told < FIRST and (read := os.read(reader, FIRST)):
            told += len(read)
        os.close(reader)
        return
    held = os.open(fifo, os.O_WRONLY)
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    os.setsid()
    if "bare" in kinds:
        for descriptor in (held, writer):
            os.set_inheritable(descriptor, True)  # noqa: FBT003 - os takes no name
        os.execve(sys.executable, [sys.executable, "-IS", __file__, f"{writer}", *kinds], {})
    hop(writer, *kinds)


def hop(writer: int, *kinds: str) -> None:
    """Hop, and tell of the first hops."""
    if "deaf" in kinds:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    end = time.monotonic() + LONGEST
    for number in range(MOST):
        if number < FIRST:
            os.write(writer, b".")
        elif number == FIRST:
            os.close(writer)
        if time.monotonic() > end or os.fork():
            os._exit(0)
        os.setsid()
        time.sleep(LONGEST if number == FIRST and "tired" in kinds else INTERVAL)
    os._exit(0)


class Hopper:
    """The hoppers that hold a fifo."""

    def __init__(self, fifo: Path) -> None:
        os.mkfifo(fifo)
        self.fifo, self.reader = fifo, os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)

    @property
    def tag(self) -> str:
        """A tag for the processes of a run that leaves one."""
        return str(self.fifo)[1:].replace("/", "-")

    def is_gone(self, seconds: float = LONGEST / 2) -> bool:
        """Wait until no process holds the fifo, `seconds` at most; return whether that is so."""
        poll = select.poll()
        poll.register(self.reader, select.POLLHUP)
        return bool(poll.poll(seconds * 1000))


@contextmanager
def hopper(folder: Path) -> Iterator[Hopper]:
    """Provide a fifo for hoppers."""
    made = Hopper(folder / "hoppers")
    try:
        yield made
    finally:
        os.close(made.reader)


if __name__ == "__main__":
    hop(int(sys.argv[1]), *sys.argv[2:])
