"""One attempt at a time for each handle: a lock that its holder's death releases."""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from turngate.errors import EnvironmentFailed


@contextmanager
def locked(path: Path, handle: str) -> Iterator[None]:
    """Hold the lock file of a handle while the block runs; EnvironmentFailed names who holds it already.

    The kernel releases the lock when its holder ends, however it ends; what stands in the file only says who.
    """
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise EnvironmentFailed(f"{handle} is in use by {_holder(path)}", "wait until it has ended") from None
        file.seek(0)
        file.truncate()
        json.dump({"pid": os.getpid(), "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}, file)
        file.flush()
        try:
            yield
        finally:
            file.seek(0)
            file.truncate()


def _holder(path: Path) -> str:
    try:
        told = json.loads(path.read_text("utf-8"))
        return f"process {int(told['pid'])}, since {str(told['since'])[:30]}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
