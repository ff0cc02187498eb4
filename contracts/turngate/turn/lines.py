"""Splits bytes into lines as they arrive in chunks of any size, in bounded memory."""

from collections.abc import Iterable
from io import BytesIO
from itertools import chain

from msgspec import Struct, field

MAX_LINE = 8 * 2**20
MAX_PROBLEMS = 20
EXCERPT = 160


class Problems(Struct):
    """Violations of the framing: descriptions of the first few, and the number of all."""

    first: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, what: str, at: bytes | bytearray = b"") -> None:
        """Note one problem with an excerpt of the bytes concerned."""
        self.count += 1
        if len(self.first) < MAX_PROBLEMS:
            shown = at[:EXCERPT].decode("utf-8", "backslashreplace")
            self.first.append(f"{what}: {shown!r}" if at else what)


class Lines:
    """Splits bytes into lines, each with its newline; lines over the limit are dropped and noted."""

    def __init__(self, problems: Problems, limit: int = MAX_LINE) -> None:
        self._problems, self._limit = problems, limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterable[bytes]:
        """Return every line that the chunk completes; take them all before the next call."""
        if len(chunk) > self._limit:
            parts = (chunk[at : at + self._limit] for at in range(0, len(chunk), self._limit))
            return chain.from_iterable(map(self.feed, parts))
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._keep(chunk)
            return ()
        start, first = 0, list[bytes]()
        if self._size:
            start = chunk.find(b"\n") + 1
            self._keep(chunk[: start - 1])
            first = [line + b"\n" for line in self.finish()]
        self._keep(chunk[end:])
        # a file of bytes is the fastest way to lines, and holds one at a time
        return chain(first, BytesIO(chunk[start:end]))

    def finish(self) -> list[bytes]:
        """Return the unfinished line, if there is one."""
        line, size = b"".join(self._parts), self._size
        self._parts, self._size = [], 0
        if size > self._limit:
            self._problems.add(f"a line of {size} bytes is longer than {self._limit}", line)
            return []
        return [line] if size else []

    def _keep(self, piece: bytes) -> None:
        if not piece:
            return
        self._size += len(piece)
        if self._size <= self._limit:
            self._parts.append(piece)
        else:
            self._parts = [(b"".join(self._parts) + piece)[:EXCERPT]]
