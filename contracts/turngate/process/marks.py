"""Marks what a tree starts with a resource limit: descendants inherit it, even if they empty their environment.

The limit is that of real-time CPU time, which only Linux has. A mark is far too high to limit anything. It shows which
tree left an adopted process, and that an adopted process without one was never started by a tree.
"""

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from turngate.process.sessions import is_adopting

LIVE: set[int] = set()  # the marks of the trees that are not reaped
_HIGHEST = 2**62  # microseconds
_LOWEST = 2**40  # about two weeks


@contextmanager
def marking() -> Iterator[int | None]:
    """Mark what this process starts during the block, if it adopts orphans; yield the new mark, else None.

    Only one thread at a time may be in the block: hold `STARTING`.
    """
    if sys.platform != "linux" or not is_adopting():
        yield None
        return
    before = resource.getrlimit(resource.RLIMIT_RTTIME)
    mark = _new(before[1])
    try:
        resource.setrlimit(resource.RLIMIT_RTTIME, (mark, before[1]))
    except (ValueError, OSError):  # the limit is too low, or a sandbox forbids it
        yield None
        return
    try:
        yield mark
        LIVE.add(mark)
    finally:
        resource.setrlimit(resource.RLIMIT_RTTIME, before)


def mark_of(pid: int) -> int | None:
    """Return the mark of a process (0: this one), or the limit in its place; None if it can't be read."""
    if sys.platform != "linux":
        return None
    try:
        return resource.prlimit(pid, resource.RLIMIT_RTTIME)[0]
    except OSError:
        return None


def _new(hard: int) -> int:
    """Return a random mark below the hard limit, so that a turngate started by another one also finds room."""
    highest = _HIGHEST if hard == resource.RLIM_INFINITY else min(hard, _HIGHEST)
    number = int.from_bytes(os.urandom(8), "big")  # importing secrets takes longer than to start a process
    return _LOWEST + number % max(highest - _LOWEST, 1)
