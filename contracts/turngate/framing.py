"""Cuts an engine's stream into records as bytes arrive, however it is chunked, in bounded memory."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import orjson

from turngate.contract import Framed
from turngate.records import Record

MAX_LINE = 8 * 2**20
MAX_DOCUMENT = 32 * 2**20
MAX_TAIL = 2**20
MAX_PROBLEMS = 20
EXCERPT = 160


@dataclass(slots=True)
class Problems:
    """What left the framing: the first few in words, and how many there were."""

    first: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, what: str, at: bytes = b"") -> None:
        """Note one problem with an excerpt of the bytes that it is about."""
        self.count += 1
        if len(self.first) < MAX_PROBLEMS:
            shown = at[:EXCERPT].decode("utf-8", "backslashreplace")
            self.first.append(f"{what}: {shown!r}" if at else what)


class Framer(Protocol):
    """Takes bytes as they come, gives records; `text` is what a stream of plain text says."""

    problems: Problems

    def feed(self, chunk: bytes) -> Iterator[Record]:
        """Take bytes, give the records that they complete."""

    def finish(self) -> Iterator[Record]:
        """Give what the end of the stream completes."""

    @property
    def text(self) -> str:
        """The plain text of the stream, where that is its framing."""


def framer(framed: Framed) -> Framer:
    """Make the framer that a contract asks for."""
    noise = tuple(re.compile(pattern) for pattern in framed.noise)
    if framed.framing == "ndjson":
        return _Ndjson(noise)
    if framed.framing == "json_document":
        return _JsonDocument(noise)
    return _TaggedBlock(framed.tag) if framed.framing == "tagged_block" else _Text(noise)


class Lines:
    """Cuts bytes into lines without their newline; a line over the limit is dropped and noted."""

    def __init__(self, problems: Problems, limit: int = MAX_LINE) -> None:
        """Note lines longer than `limit` bytes in `problems`."""
        self._problems, self._limit = problems, limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Give every line that the chunk completes."""
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            self._keep(piece)
            yield from self.finish()
        self._keep(rest)

    def finish(self) -> Iterator[bytes]:
        """Give the line under way, if there is one."""
        if self._size > self._limit:
            self._problems.add(f"a line of {self._size} bytes is longer than {self._limit}", b"".join(self._parts))
        elif self._size:
            yield b"".join(self._parts)
        self._parts, self._size = [], 0

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= self._limit:
            self._parts.append(piece)
        else:
            self._parts = [(b"".join(self._parts) + piece)[:EXCERPT]]


class _Ndjson:
    text = ""

    def __init__(self, noise: tuple[re.Pattern[str], ...]) -> None:
        self.problems = Problems()
        self._lines, self._noise = Lines(self.problems), noise

    def feed(self, chunk: bytes) -> Iterator[Record]:
        for line in self._lines.feed(chunk):
            yield from self._record(line)

    def finish(self) -> Iterator[Record]:
        for line in self._lines.finish():
            yield from self._record(line)

    def _record(self, line: bytes) -> Iterator[Record]:
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:
            record = None
        if not isinstance(record, dict):
            if line.strip() and not _is_noise(line, self._noise):
                self.problems.add("a line is no JSON object", line)
            return
        if not line.startswith(b"{") or line.endswith(b"\r"):
            self.problems.add("a line holds more than its JSON object", line)
        yield record


class _Buffered:
    """Keeps a bounded stream until its end."""

    def __init__(self, limit: int) -> None:
        self.problems = Problems()
        self._kept, self._limit = bytearray(), limit

    def feed(self, chunk: bytes) -> Iterator[Record]:
        if len(self._kept) + len(chunk) > self._limit and self.problems.count == 0:
            self.problems.add(f"the stream is longer than {self._limit} bytes")
        self._kept += chunk[: max(0, self._limit - len(self._kept))]
        return iter(())


class _JsonDocument(_Buffered):
    text = ""

    def __init__(self, noise: tuple[re.Pattern[str], ...]) -> None:
        super().__init__(MAX_DOCUMENT)
        self._noise = noise

    def finish(self) -> Iterator[Record]:
        """Parse what is left without noise; what stands round the document is a problem but hides nothing."""
        lines = [line for line in bytes(self._kept).split(b"\n") if not _is_noise(line, self._noise)]
        text = b"\n".join(lines).strip(b" \n")
        if not text:
            return
        try:
            yield from self._object(text)
        except orjson.JSONDecodeError:
            yield from self._surrounded(text)

    def _object(self, text: bytes) -> Iterator[Record]:
        document = orjson.loads(text)
        if not isinstance(document, dict):
            self.problems.add("the document is no JSON object", text)
            return
        if b"\r\n" in text:
            self.problems.add("lines end in CRLF", text)
        yield document

    def _surrounded(self, text: bytes) -> Iterator[Record]:
        self.problems.add("the stream is not one JSON document", text)
        lines = text.split(b"\n")
        starts = [i for i, line in enumerate(lines) if line.startswith(b"{")]
        ends = [i for i, line in enumerate(lines) if line.rstrip().endswith(b"}")]
        if starts and ends:
            try:
                document = orjson.loads(b"\n".join(lines[starts[0] : ends[-1] + 1]))
            except orjson.JSONDecodeError:
                return
            yield from [document] if isinstance(document, dict) else []


class _TaggedBlock:
    """Reads the block that ends the stream; text before it is no matter of the framing."""

    text = ""

    def __init__(self, tag: str) -> None:
        self.problems = Problems()
        self._lines = Lines(self.problems)
        self._open, self._close = f"<{tag}>".encode(), f"</{tag}>".encode()
        self._inside: list[bytes] | None = None
        self._size = 0
        self._block: bytes | None = None
        self._count = 0

    def feed(self, chunk: bytes) -> Iterator[Record]:
        for line in self._lines.feed(chunk):
            self._take(line)
        return iter(())

    def finish(self) -> Iterator[Record]:
        for line in self._lines.finish():
            self._take(line)
        if self._block is None:
            if self._count or self._inside is not None:
                self.problems.add(f"no {self._close.decode()} at the end of the stream")
            return
        if self._count > 1:
            self.problems.add(f"{self._count} blocks of {self._open.decode()}")
        try:
            record = orjson.loads(self._block)
        except orjson.JSONDecodeError:
            self.problems.add("the block is not JSON", self._block)
            return
        if isinstance(record, dict):
            yield record
        else:
            self.problems.add("the block is no JSON object", self._block)

    def _take(self, line: bytes) -> None:
        if line == self._open:
            self._inside, self._size, self._block = [], 0, None
        elif self._inside is not None and line == self._close:
            self._block, self._inside, self._count = b"\n".join(self._inside), None, self._count + 1
        elif self._inside is not None and self._size < MAX_TAIL:
            self._inside.append(line)
            self._size += len(line)
        elif line.strip():
            self._block = None


class _Text(_Buffered):
    def __init__(self, noise: tuple[re.Pattern[str], ...]) -> None:
        super().__init__(MAX_DOCUMENT)
        self._noise = noise

    def finish(self) -> Iterator[Record]:
        return iter(())

    @property
    def text(self) -> str:
        """The stream without the lines of noise that it begins with, and without newlines at its ends."""
        lines = bytes(self._kept).split(b"\n")
        while lines and (not lines[0].strip() or _is_noise(lines[0], self._noise)):
            lines.pop(0)
        return b"\n".join(lines).decode("utf-8", "replace").rstrip("\n")


def _is_noise(line: bytes, noise: tuple[re.Pattern[str], ...]) -> bool:
    text = line.decode("utf-8", "replace").rstrip("\r")
    return any(pattern.fullmatch(text) for pattern in noise)
