"""One attempt at a time for each handle: a lock that its holder's death releases."""

import fcntl
import io
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from turngate.errors import EnvironmentFailed


@contextmanager
def locked(path: Path, handle: str) -> Iterator[None]:
    """Hold the lock file of a handle while the block runs; EnvironmentFailed says why it can't be held.

    The kernel releases the lock when its holder ends, however it ends; what stands in the file only says who.
    """
    with _taken(path, handle) as file:
        told = {"pid": os.getpid(), "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        file.write(json.dumps(told).encode())
        try:
            yield
        finally:
            file.truncate(0)


def _taken(path: Path, handle: str) -> io.FileIO:
    """Open the lock file, lock it and empty it."""
    try:
        file = io.FileIO(path, "a+")
    except OSError as error:
        raise EnvironmentFailed(f"{path} can't be opened: {error.strerror}", "mend its permissions") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.truncate(0)
    except BlockingIOError:
        file.close()
        raise EnvironmentFailed(f"{handle} is in use by {_holder(path)}", "wait until it has ended") from None
    except OSError as error:
        file.close()
        raise EnvironmentFailed(f"{path} can't be locked: {error.strerror}", "use a local --data-dir") from error
    return file


def _holder(path: Path) -> str:
    try:
        told = json.loads(path.read_text("utf-8"))
        return f"process {int(told['pid'])}, since {str(told['since'])[:30]}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
