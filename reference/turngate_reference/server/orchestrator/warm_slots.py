"""Which runs may start, and which kept processes give way to them. A kept process uses a slot only while it is free."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Room:
    """Whether the first queued run may start now, and the runs whose processes must end so that others can start."""

    may_start: bool
    giving_way: tuple[str, ...]


def make_room(queued: Sequence[str], free: int, waiting: Sequence[str], ending: int) -> Room:
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
    return Room(is_ready, tuple(others[:too_many]))
