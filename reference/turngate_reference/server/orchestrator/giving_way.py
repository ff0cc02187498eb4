"""Which runs may start, and which warm processes give way to them or to the memory limit.

A warm process uses a slot only while it is free; a sticky one holds the slot of its run, and is never asked.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress

import psutil
from msgspec import Struct


class SlotCheck(Struct, frozen=True):
    """Whether the first queued run may start now, and the runs whose processes must end so that others can start."""

    may_start: bool
    giving_way: tuple[str, ...]


def make_room(queued: Sequence[str], free: int, waiting: Sequence[str], ending: int) -> SlotCheck:
    """Decide for the runs `queued`, in order, if turns leave `free` slots.

    `waiting` are the runs whose processes wait, the longest wait first; `ending` processes are being ended. Neither
    includes the processes of runs that hold a slot. A queued run whose process waits needs no further slot. Those that
    have waited longest give way first, but the processes of queued runs last.
    """
    starting = queued[:free]
    others = [run_id for run_id in waiting if run_id not in starting]
    others.sort(key=lambda run_id: run_id in queued)
    too_many = max(0, len(others) + len(starting) - free)
    is_ready = bool(starting) and (starting[0] in waiting or free > len(waiting) + ending)
    return SlotCheck(is_ready, tuple(others[:too_many]))


def beyond_memory(sizes: Iterable[tuple[str, int]], limit: int) -> list[str]:
    """Return the runs whose processes don't fit a limit; `sizes` has each run's bytes, the shortest wait first."""
    used, beyond = 0, []
    for run_id, size in sizes:
        used += size
        if used > limit:
            beyond.append(run_id)
    return beyond


def resident_memory(pid: int) -> int:
    """Return the resident memory of a process and all its descendants, in bytes.

    What ends meanwhile, or can't be read, counts as 0.
    """
    used = 0
    with suppress(psutil.Error):
        main = psutil.Process(pid)
        for process in (main, *main.children(recursive=True)):
            with suppress(psutil.Error):
                used += process.memory_info().rss
    return used
