"""Leaves processes as daemons do (with another parent, in another session, without an environment), and finds them."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def leave(note: Path) -> None:
    """Leave a process that sleeps, and append its process id to a file."""
    if os.fork():
        os.wait()
        return
    os.setsid()
    if pid := os.fork():
        with note.open("a") as file:
            file.write(f"{pid}\n")
        os._exit(0)
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    os.execve("/bin/sleep", ["sleep", "600"], {})


def noted(folder: Path) -> list[int]:
    """Return the ids of all processes that engines below a folder left, whether they live or not."""
    return [int(line) for file in folder.rglob("orphans") for line in file.read_text().split()]


def left(folder: Path) -> list[int]:
    """Return the ids of those that live."""
    return [pid for pid in noted(folder) if Path(f"/proc/{pid}").exists()]


@contextmanager
def tidied(folder: Path) -> Iterator[None]:
    """End those that live after the block."""
    try:
        yield
    finally:
        for pid in left(folder):
            os.kill(pid, signal.SIGKILL)
