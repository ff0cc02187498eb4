"""Finds living processes, also by the tag of a run, and ends them, including those left by a dead program."""

import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import psutil
from msgspec import Struct

from turngate.process.critical import refuse_in_critical
from turngate.process.leftover import Leftover
from turngate.process.sessions import POLL, TAG

TERM_GRACE = 2.0  # seconds between SIGTERM and SIGKILL
KILL_GRACE = 3.0  # seconds after SIGKILL until a process counts as a survivor
_CLOCK_SLACK = 1.0  # seconds between two readings of one process's start time


def leftover(process: psutil.Process, *, survived: bool) -> Leftover:
    """Describe a process that outlived the one that was run."""
    try:
        return Leftover(process.pid, tuple(process.cmdline()), survived)
    except psutil.Error:
        return Leftover(process.pid, (), survived)


def is_alive(process: psutil.Process | int) -> bool:
    """Return whether a process (object or id) is running; a zombie is not."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(process) if isinstance(process, int) else process
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def start_time(pid: int) -> float:
    """Return a living process's start time in seconds since the epoch; psutil.NoSuchProcess if it is gone."""
    return psutil.Process(pid).create_time()


def tags_of(process: psutil.Process) -> set[str]:
    """Return the tags of a process, none if they can't be read; psutil.NoSuchProcess if it is gone."""
    environment: dict[str, str] = {}
    with suppress(psutil.AccessDenied, psutil.ZombieProcess):
        for _ in range(5):
            environment = process.environ()
            # during exec there is briefly none; kernel threads never have an executable
            if environment or not process.exe():
                break
            time.sleep(POLL / 2)
    return set(environment.get(TAG, "").split("/")) - {""}


def tagged(tags: set[str]) -> Iterator[psutil.Process]:
    """Return the living processes with one of the tags, except this one."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and not tags.isdisjoint(tags_of(process)) and is_alive(process):
                yield process


def wait_gone(processes: Iterable[psutil.Process], deadline: float) -> None:
    """Wait until none of `processes` is alive or `deadline` (monotonic) has passed."""
    # psutil's `wait` would reap the main process
    while any(map(is_alive, processes)) and time.monotonic() < deadline:
        time.sleep(POLL)


def end_all(
    living: Callable[[], list[psutil.Process]], send: Callable[[list[psutil.Process], signal.Signals], None]
) -> list[psutil.Process]:
    """Send SIGTERM, then SIGKILL, to the processes that `living` returns until none is left; return the survivors."""
    alive: list[psutil.Process] = []
    for number, grace in ((signal.SIGTERM, TERM_GRACE), (signal.SIGKILL, KILL_GRACE)):
        deadline = time.monotonic() + grace
        # a signalled process may have forked meanwhile, so repeat until nothing is left
        while alive := living():
            send(alive, number)
            wait_gone(alive, deadline)
            if time.monotonic() >= deadline:
                break
        else:
            return []
    return alive


class Noted(Struct, frozen=True):
    """A saved note on a process tree: its tag, and the id and start time of its main process.

    `pid` is None if it was never saved; `started_at` is in seconds since the epoch.
    """

    tag: str
    pid: int | None = None
    started_at: float | None = None


def end_orphans(noted: Iterable[Noted]) -> tuple[int, ...]:
    """End every process that has one of the tags or is a noted main process, with all its children.

    Sends SIGTERM and, after a grace period, SIGKILL; returns the ids of the survivors. The start time is compared too,
    since another process may have reused the process id.
    """
    refuse_in_critical("processes are ended")
    wanted = list(noted)
    seen: dict[psutil.Process, None] = {}

    def living() -> list[psutil.Process]:
        for root in [*tagged({row.tag for row in wanted}), *(main for row in wanted for main in _main(row))]:
            seen[root] = None
            with suppress(psutil.Error):
                seen.update(dict.fromkeys(root.children(recursive=True)))
        return [process for process in seen if is_alive(process)]

    def send(processes: list[psutil.Process], number: signal.Signals) -> None:
        for process in processes:
            with suppress(psutil.Error):
                process.send_signal(number)

    return tuple(process.pid for process in end_all(living, send)) if wanted else ()


def _main(noted: Noted) -> Iterator[psutil.Process]:
    with suppress(psutil.Error):
        if noted.pid is not None and noted.started_at is not None and noted.pid != os.getpid():
            process = psutil.Process(noted.pid)
            if abs(process.create_time() - noted.started_at) < _CLOCK_SLACK:
                yield process
