"""Proof that a supplied file guards an engine, which the engine must give before it gets its prompt.

The file may be lost without a word, for example if a wrapper on PATH replaces the variable that names it. So the file
opens a pipe for reading once it has had an effect, and reads until its end. Nothing else reads from this pipe, so a
writer can only open it after that. The guard waits for the writer, so the prompt is there when the engine looks for it.
An engine that exits before, such as one that rejects its arguments, opens the pipe at its exit, and reads no prompt.
"""

import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from turngate.errors import MachineError, UnsafeTurnError

LIMIT = 60.0  # seconds that an engine may take until its guard has had an effect
_PAUSE = 0.02


class GuardProof:
    """The pipe by which the guard of one process proves that it has an effect; a context that removes the pipe.

    `variable` is the one that names the pipe to the guard. MachineError: it can't be made.
    """

    def __init__(self, variable: str) -> None:
        self.given = False
        try:
            folder = os.environ.get("TMPDIR") or "/tmp"  # noqa: S108 - the name can't be guessed, and no file is replaced
            self._path = Path(folder, f"turngate-{uuid.uuid4().hex}")
            os.mkfifo(self._path, 0o600)
        except OSError as error:
            why = f"the pipe that proves that the engine is guarded can't be made: {error}"
            raise MachineError(why, "free some disk space, or set TMPDIR to a folder of your own") from error
        self.env = {variable: str(self._path)}

    def __enter__(self) -> Self:
        """Return it; the pipe is there already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the pipe."""
        with suppress(OSError):
            self._path.unlink()

    def wait(self, over: Callable[[], bool]) -> int | None:
        """Return a descriptor once the guard has had an effect; the engine goes on when it is closed.

        None: `over` returned true, or the limit has passed.
        """
        deadline = time.monotonic() + LIMIT
        while not over() and time.monotonic() < deadline:
            with suppress(OSError):  # nobody reads yet
                descriptor = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK)
                self._path.unlink()  # nobody else waits for a writer
                self.given = True
                return descriptor
            time.sleep(_PAUSE)
        return None


def unguarded(executable: str, what: str) -> UnsafeTurnError:
    """Return the error for an engine whose guard had no effect; `what` happened instead."""
    name = Path(executable).name
    hint = f"look for a wrapper of {name} on PATH that replaces NODE_OPTIONS, and let it keep what is there"
    return UnsafeTurnError(f"{name} {what}, so it got no prompt", hint, executable)
