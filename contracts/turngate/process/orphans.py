"""Find and end what a program that died has left running, by what it had noted of it."""

import os
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import psutil

from turngate.process.tree import KILL_GRACE, TAG, TERM_GRACE

_CLOCK_SLACK = 1.0  # seconds between two readings of one process's start time
_POLL = 0.01


@dataclass(frozen=True, slots=True)
class Noted:
    """What was noted of a process tree: the tag in its environment, its main process and that one's start time.

    `pid` None means that it was not noted any more; `started_at` is in seconds since the epoch.
    """

    tag: str
    pid: int | None = None
    started_at: float | None = None


def start_time(pid: int) -> float:
    """Return a living process's start time in seconds since the epoch; psutil.NoSuchProcess if it is gone."""
    return psutil.Process(pid).create_time()


def end_orphans(noted: Iterable[Noted]) -> tuple[int, ...]:
    """End every process that carries one of the tags, or is a main process that was noted, with all its children.

    SIGTERM, a grace, then SIGKILL; gives the ids of the survivors. A process id alone is never believed: it may
    have passed to another process since.
    """
    wanted = list(noted)
    found = _find(wanted) if wanted else []
    for how, grace in (("terminate", TERM_GRACE), ("kill", KILL_GRACE)):
        for process in found:
            with suppress(psutil.Error):
                getattr(process, how)()
        deadline = time.monotonic() + grace
        while any(map(_is_alive, found)) and time.monotonic() < deadline:
            time.sleep(_POLL)
        # what was asked to end may have started something meanwhile
        found = list(dict.fromkeys([process for process in [*found, *_find(wanted)] if _is_alive(process)]))
        if not found:
            break
    return tuple(process.pid for process in found)


def _find(wanted: list[Noted]) -> list[psutil.Process]:
    tags = {each.tag for each in wanted if each.tag}
    mains = {each.pid: each.started_at for each in wanted if each.pid is not None}
    roots = [process for process in psutil.process_iter() if _is_one(process, tags, mains)]
    found = dict.fromkeys(roots)
    for process in roots:
        with suppress(psutil.Error):
            found |= dict.fromkeys(process.children(recursive=True))
    return list(found)


def _is_one(process: psutil.Process, tags: set[str], mains: dict[int, float | None]) -> bool:
    if process.pid == os.getpid():
        return False
    with suppress(psutil.Error):
        started_at = mains.get(process.pid)
        if started_at is not None and abs(process.create_time() - started_at) < _CLOCK_SLACK:
            return True
        return not tags.isdisjoint(process.environ().get(TAG, "").split("/"))
    return False


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False
