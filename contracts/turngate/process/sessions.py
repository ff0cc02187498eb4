"""The processes of this machine by their sessions, and the sessions that this program leads: light to import.

On Linux, a program can adopt processes that leave the tree of an engine by forking twice. It then also has to reap them
as soon as they end, for programs in which no other tree may end for a long time.
"""

import ctypes
import os
import sys
import threading
from collections.abc import Container, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psutil
import signal

from msgspec import Struct

from turngate.process.signals import handling_signals

TAG = "TURNGATE_RUN"  # environment variable with the ids of the run and of enclosing runs
POLL = 0.005
# the main processes that are not reaped; each leads a session that no other process can join
LEADERS: set[int] = set()
STARTING = threading.Lock()  # prevents treating a main process that is not yet a session leader as an orphan

Process = tuple[int, int]  # its id and the id of its session
GONE = -1  # in place of a session's id: the process has ended meanwhile, and may have left another one
_SET_CHILD_SUBREAPER = 36  # prctl(2)
_adopting: list[bool] = []


def sessions() -> set[Process]:
    """Return every process. This takes two system calls per process; reading start times would take a file access."""
    processes = set()
    for pid in pids():
        try:
            processes.add((pid, os.getsid(pid)))
        except OSError:
            processes.add((pid, GONE))
    return processes


def younger(before: AbstractSet[Process]) -> set[Process]:
    """Return the processes that may descend from one that was started after `before` and leads a session.

    They have started since (or have changed their session, or reuse a process id), and are in a session that is as
    young, since no process can join an older one.
    """
    older = {session for _, session in before} - {GONE}
    return {(pid, session) for pid, session in sessions() - before if session not in older}


def is_unrelated(process: Process, leader: int, tag: str, platform: str = sys.platform) -> bool:
    """Return whether a process certainly isn't in the tree of `leader`, whose processes carry `tag`.

    False: it may be in it, or only `Family` can tell, which takes longer to import than this takes.
    """
    pid, session = process
    if platform != "linux" or session == leader:
        return False
    if session in LEADERS:
        return True
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
        environment = _environment(pid)
    except OSError:
        return False  # it has ended, and may have left a child
    parent = int(status.rpartition(b")")[2].split()[1])  # the name before it is in brackets, and may contain any
    # while a process starts a program, its environment is empty
    return environment != b"" and tag.encode() not in environment and parent != os.getpid()


def _environment(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except PermissionError:
        return b"another user's"


def pids(platform: str = sys.platform) -> list[int]:
    """Return the ids of all processes."""
    if platform == "linux":
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - faster
    import psutil  # noqa: PLC0415 - slow to import, and not needed on Linux

    return psutil.pids()


def is_child(pid: int) -> bool:
    """Return whether a process is a child of this one that is not reaped."""
    if hasattr(os, "waitid"):
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return True
        return False
    import psutil  # noqa: PLC0415 - macOS before Python 3.13

    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).ppid() == os.getpid()
    return False


def has_ended_child() -> bool:
    """Return whether a child of this process may have ended without being reaped."""
    if not hasattr(os, "waitid"):
        return True
    with suppress(ChildProcessError):
        return os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    return False


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


class Leftover(Struct, frozen=True):
    """A process of the tree that was still alive after the main process exited on its own.

    `survived`: it could not be ended. After a timeout or a stop, only such processes are reported. `argv` is empty if
    it could not be read.
    """

    pid: int
    argv: tuple[str, ...]
    survived: bool


@contextmanager
def reaping_adopted() -> Iterator[None]:
    """Reap adopted processes when they end, while the block runs inside `adopting_orphans`.

    The main processes of trees, and children in this program's own session, stay for those who wait for them. Call it
    on the main thread.
    """
    with handling_signals((signal.SIGCHLD,), lambda _: _reap()):
        _reap()  # what has ended before
        yield


def _reap() -> None:
    with STARTING:
        reap_adopted(LEADERS)
