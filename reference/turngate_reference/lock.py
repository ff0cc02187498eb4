"""One attempt at a time for each handle."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from turngate import files
from turngate.errors import EnvironmentFailed


@contextmanager
def locked(path: Path, handle: str) -> Iterator[None]:
    """Hold the lock file of a handle while the block runs; EnvironmentFailed says why it can't be held.

    What stands in the file only says who holds it.
    """
    with ExitStack() as holding:
        try:
            file = holding.enter_context(files.locked(path, wait=False))
            os.truncate(file, 0)
        except BlockingIOError:
            raise EnvironmentFailed(f"{handle} is in use by {_holder(path)}", "wait until it has ended") from None
        except OSError as error:
            raise EnvironmentFailed(f"{path} can't be locked: {error.strerror}", "use a local --data-dir") from error
        holder = {"pid": os.getpid(), "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        os.write(file, json.dumps(holder).encode())
        try:
            yield
        finally:
            os.truncate(file, 0)


def _holder(path: Path) -> str:
    try:
        holder = json.loads(path.read_text("utf-8"))
        return f"process {int(holder['pid'])}, since {str(holder['since'])[:30]}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
