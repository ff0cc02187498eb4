"""A file that takes a process's output in the place of a pipe, and is read while it grows.

Some engines exit before a pipe has taken all that they print, and lose the rest. A file takes everything at once.
"""

import fcntl
import os
import threading
from typing import Self

from turngate.errors import MachineError

MAX_SIZE = 64 * 2**20  # bytes on the disk; what was read is deleted when the file is larger
_POLL = 0.05  # seconds between two looks at a file without news


class OutputFile:
    """A temporary file without a name. `read` waits for more, like that of a pipe, until `end` is called.

    One thread reads. MachineError if the file can't be made.
    """

    def __init__(self) -> None:
        import tempfile  # noqa: PLC0415 - only engines that cut what they write to a pipe get a file

        try:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - `close` closes it
        except OSError as error:
            hint = "free disk space, or set TMPDIR to a folder on another disk"
            raise MachineError(f"no file for the output can be made: {error.strerror}", hint) from error
        # every process that inherits it writes behind the others
        fcntl.fcntl(self._file, fcntl.F_SETFL, fcntl.fcntl(self._file, fcntl.F_GETFL) | os.O_APPEND)
        self._at = 0
        self._ended = threading.Event()

    def fileno(self) -> int:
        """Return the descriptor for the process."""
        return self._file.fileno()

    def read(self, size: int) -> bytes:
        """Return the next bytes, `size` at most; none: the output has ended."""
        while True:
            # in this order, since what is written before the end must be read
            is_last = self._ended.is_set()
            if self._file.closed:
                return b""
            chunk = os.pread(self._file.fileno(), size, self._at)
            if chunk or is_last:
                break
            if self._at > MAX_SIZE:
                os.ftruncate(self._file.fileno(), 0)
                self._at = 0
            self._ended.wait(_POLL)
        self._at += len(chunk)
        return chunk

    def end(self) -> None:
        """Let `read` end once it has returned all that is there: nothing more will be written."""
        self._ended.set()

    def close(self) -> None:
        """Delete the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
