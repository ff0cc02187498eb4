"""Waits for free file descriptors, without which a process tree can be neither seen nor ended."""

import errno
import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE = 30.0  # seconds
HINT = "raise the limit of open files (ulimit -n)"
_PAUSE = 0.05
NONE_FREE = frozenset({errno.EMFILE, errno.ENFILE})  # in this process, or on this machine
_T = TypeVar("_T")


def patiently(action: Callable[[], _T]) -> _T:
    """Return what `action` returns, repeating it for some time while no descriptor is free; OSError if none gets free.

    Other errors of the action are raised at once.
    """
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return action()
        except OSError as error:
            if error.errno not in NONE_FREE or time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE)
