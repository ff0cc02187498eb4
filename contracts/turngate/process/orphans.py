"""Adopts processes that leave the tree of an engine by forking twice (only Linux can do that)."""

import ctypes
import os
import sys
from collections.abc import Container, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from turngate.process.sessions import Process, has_ended_child, sessions

if TYPE_CHECKING:
    import psutil

_SET_CHILD_SUBREAPER = 36  # prctl(2)
_adopting: list[bool] = []


@contextmanager
def adopting_orphans() -> Iterator[None]:
    """Make this process the parent of descendants whose parent ends, while the block runs; only Linux can do that.

    Only for programs that start processes in new sessions through `ProcessTree`. Others are never ended, but reaped as
    orphans are.
    """
    able = sys.platform == "linux" and _set_subreaper(1)
    if able:
        _adopting.append(True)
    try:
        yield
    finally:
        if able:
            _adopting.pop()
            if not _adopting:
                _set_subreaper(0)


def _set_subreaper(value: int) -> bool:
    with suppress(OSError, AttributeError):
        return bool(ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, value, 0, 0, 0) == 0)
    return False


def is_adopting() -> bool:
    """Return whether this process is in `adopting_orphans`, and able to adopt."""
    return bool(_adopting)


def is_adopted(process: "psutil.Process", session: int) -> bool:
    """Return whether a process of a session was adopted; psutil.NoSuchProcess if it is gone."""
    return bool(_adopting) and session != os.getsid(0) and process.ppid() == os.getpid()


def reap_adopted(leaders: Container[int]) -> None:
    """Reap the adopted processes that have ended; `leaders` are the processes that others wait for.

    If no file descriptor is free to list the processes, the next call does it.
    """
    if not _adopting or not has_ended_child():
        return
    processes: set[Process] = set()
    with suppress(OSError):
        processes = sessions()
    for pid, session in processes:
        if pid not in leaders and session != os.getsid(0):
            with suppress(ChildProcessError):  # it is no child, as most aren't
                os.waitpid(pid, os.WNOHANG)
