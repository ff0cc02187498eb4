"""A bounded file that is written as things happen."""

import time
from io import FileIO
from pathlib import Path

MAX_TRACE = 16 * 2**20


class Trace:
    """Appends to `path` up to `limit` bytes; it is made at the first byte. What can't be written is lost in silence."""

    def __init__(self, path: Path, limit: int = MAX_TRACE) -> None:
        self._path, self._left = path, limit
        self._file: FileIO | None = None

    def write(self, data: bytes) -> None:
        """Append what still has room."""
        data, self._left = data[: self._left], max(0, self._left - len(data))
        if not data:
            return
        try:
            self._file = self._file or self._path.open("ab", buffering=0)
            self._file.write(data)
        except OSError:
            self._left = 0

    def line(self, direction: str, line: bytes) -> None:
        """Append a line of a protocol, with the time and a sign of its direction."""
        self.write(b"%.3f %s %s\n" % (time.time(), direction.encode(), line))

    def close(self) -> None:
        """Close the file; later bytes are lost."""
        self._left = 0
        if self._file:
            self._file.close()
