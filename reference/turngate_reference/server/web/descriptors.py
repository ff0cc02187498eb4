"""The limit of file descriptors, and how many of them clients may hold.

Each connection holds one, and no server knows what else its process needs them for: here, to start and read engines.
"""

import resource
from contextlib import suppress

import psutil

from turngate import MachineError

CEILING = 65_536  # engines inherit the limit, and some programs close every descriptor up to it, one by one
RESERVED = 128  # for the database, requests in work, and connections between their arrival and their refusal
RESERVED_PER_SLOT = 16  # for the pipes and files of a turn
MOST, LEAST = 4000, 32  # connections


def raise_limit() -> int:
    """Raise the limit of open files, up to `CEILING`, as far as the system allows; return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CEILING if hard == resource.RLIM_INFINITY else min(hard, CEILING)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return wanted
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        return wanted
    return soft


def connections(limit: int, slots: int) -> int:
    """Return how many connections leave `slots` turns the descriptors they need; MachineError if too few do."""
    reserved = psutil.Process().num_fds() + RESERVED + RESERVED_PER_SLOT * slots
    if limit - reserved < LEAST:
        what = f"{slots} slots need {reserved + LEAST} open files, but the limit is {limit}"
        raise MachineError(what, f"raise the limit (ulimit -n {reserved + LEAST}), or lower --slots")
    return min(MOST, limit - reserved)
