"""Splits an engine's stream into records as bytes arrive in chunks of any size, in bounded memory."""

import re
from collections.abc import Callable, Iterable, Iterator
from io import BytesIO
from itertools import chain
from typing import Any

import orjson
from msgspec import Struct, field

from turngate.contract.engine_contract import Framed
from turngate.turn.records import Record

MAX_LINE = 8 * 2**20
MAX_PROBLEMS = 20
EXCERPT = 160
MAX_DOCUMENT = 32 * 2**20
MAX_TAIL = 2**20
MAX_LOOKS = 16  # for a document that looks complete while its stream goes on
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_OPEN, _CLOSE = b"{}"
RECORD = b'{"'  # in each record, even after text or cut off, and not in the objects that programs print for debugging
_BROKEN = object()


class Problems(Struct):
    """Violations of the framing: descriptions of the first few, and the number of all.

    `on_loss` gets the description of each line that can't be read and may be a record.
    """

    first: list[str] = field(default_factory=list)
    count: int = 0
    on_loss: Callable[[str], object] | None = None

    def add(self, what: str, at: bytes | bytearray = b"", *, loses: bool = False) -> None:
        """Note one problem with an excerpt of the bytes concerned; `loses` says whether they may be a record."""
        self.count += 1
        excerpt = at[:EXCERPT].decode("utf-8", "backslashreplace")
        described = f"{what}: {excerpt!r}" if at else what
        if len(self.first) < MAX_PROBLEMS:
            self.first.append(described)
        if loses and self.on_loss:
            self.on_loss(described)


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
            self._problems.add(f"a line of {size} bytes is longer than {self._limit}", line, loses=True)
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


class Framer:
    """Takes bytes as they arrive, returns records; `text` is the text of a plain stream.

    `has_crlf` says whether a line that it read ended in CRLF, which is no problem, since CR is white space in JSON.
    """

    def __init__(self, framed: Framed) -> None:
        self.problems = Problems()
        self.has_crlf = False
        self._noise = tuple(re.compile(pattern) for pattern in framed.noise)

    def feed(self, chunk: bytes) -> Iterable[Record]:
        """Take bytes and return the records that they complete; they are parsed only as they are taken."""
        raise NotImplementedError

    def finish(self) -> Iterable[Record]:
        """Return the records that the end of the stream completes."""
        return ()

    def whole(self) -> Record | None:
        """Return the last record that `finish` would return if the stream ended now; None if it reads line by line."""
        return None

    @property
    def text(self) -> str:
        """The plain text of the stream, if that is its framing."""
        return ""

    def _without_cr(self, line: bytes) -> bytes:
        """Return a line without the CR at its end, and note that there was one."""
        if not line.endswith(b"\r"):
            return line
        self.has_crlf = True
        return line[:-1]

    def _is_noise(self, line: bytes | bytearray) -> bool:
        text = line.decode("utf-8", "replace").rstrip("\r")
        return any(pattern.fullmatch(text) for pattern in self._noise)


def framer(framed: Framed) -> Framer:
    """Return the framer for a contract's framing."""
    return _FRAMERS[framed.framing](framed)


class _Ndjson(Framer):
    def __init__(self, framed: Framed) -> None:
        super().__init__(framed)
        self._lines = Lines(self.problems)

    def feed(self, chunk: bytes) -> Iterable[Record]:
        return self._records(self._lines.feed(chunk))

    def finish(self) -> Iterable[Record]:
        return [record for line in self._lines.finish() for record in self._odd(line, _json(line))]

    def _records(self, lines: Iterable[bytes]) -> Iterator[Record]:
        """Parse lines with their newlines."""
        parse, broken = orjson.loads, orjson.JSONDecodeError
        for line in lines:
            try:
                record = parse(line)
            except broken:
                yield from self._odd(line[:-1], _repaired(line))
            else:
                # compares bytes, since this runs for every line of long transcripts
                if line[0] == _OPEN and line[-2] == _CLOSE:
                    yield record
                else:
                    yield from self._odd(line[:-1], record)

    def _odd(self, line: bytes, record: object) -> list[Record]:
        """Note the problem of a line that is not exactly one object; an object followed by more still counts."""
        bare = self._without_cr(line)
        if isinstance(record, dict) and not _is_utf8(line):
            self.problems.add("a line isn't UTF-8", line)
            return [record]
        if isinstance(record, dict) and bare[0] == _OPEN and bare[-1] == _CLOSE:
            return [record]
        if isinstance(record, dict):
            self.problems.add("a line contains more than its JSON object", line)
            return [record]
        if line.strip() and not self._is_noise(line):
            self.problems.add("a line isn't a JSON object", line, loses=record is _BROKEN and RECORD in line)
        return []


class _Buffered(Framer):
    """Keeps a bounded stream until its end."""

    def __init__(self, framed: Framed) -> None:
        super().__init__(framed)
        self._kept = bytearray()

    def feed(self, chunk: bytes) -> Iterable[Record]:
        if len(self._kept) + len(chunk) > MAX_DOCUMENT and self.problems.count == 0:
            self.problems.add(f"the stream is longer than {MAX_DOCUMENT} bytes")
        self._kept += chunk[: max(0, MAX_DOCUMENT - len(self._kept))]
        return ()


class _JsonDocument(_Buffered):
    def __init__(self, framed: Framed) -> None:
        super().__init__(framed)
        self._size_read, self._looks = 0, MAX_LOOKS
        self._read: list[Record] = []
        self._noted = Problems()

    def whole(self) -> Record | None:
        """Check whether everything so far is a document; only occasionally, since each check reads all of it."""
        if len(self._kept) != self._size_read:
            self._size_read, self._read = len(self._kept), []
            if self._looks and self._kept[-4:].rstrip().endswith((b"}", b"]")):
                self._looks -= 1
                self._noted = Problems()
                self._read = self._parsed(self._noted)
        return self._read[-1] if self._read else None

    def finish(self) -> Iterable[Record]:
        """Return the document, or the objects of a list, parsed once."""
        if not self._read or len(self._kept) != self._size_read:
            return self._parsed(self.problems)
        for problem in self._noted.first:
            self.problems.add(problem)
        return self._read

    def _parsed(self, problems: Problems) -> list[Record]:
        """Parse the stream without noise.

        A list of objects and text around the document are problems, but what can be read counts.
        """
        kept = self._kept
        if self._noise:
            kept = bytearray(b"\n").join(line for line in kept.split(b"\n") if not self._is_noise(line))
        document = _json(kept)
        if records := _objects(document):
            if not _is_utf8(kept):
                problems.add("the document isn't UTF-8", kept)
            if b"\r" in kept and b"\r\n" in kept:  # a byte alone is found much faster
                self.has_crlf = True
            if isinstance(document, list):
                problems.add(f"the document is a list of {len(document)}, not one JSON object", kept)
            return records
        text = bytes(kept.strip(b" \n"))
        if document is _BROKEN:
            return self._surrounded(text, problems) if text else []
        problems.add("the document isn't a JSON object", text)
        return []

    def _surrounded(self, text: bytes, problems: Problems) -> list[Record]:
        problems.add("the stream is not one JSON document", text)
        lines = text.split(b"\n")
        for opening, closing in ((b"{", b"}"), (b"[", b"]")):
            starts = [i for i, line in enumerate(lines) if line.startswith(opening)]
            ends = [i for i, line in enumerate(lines) if line.rstrip().endswith(closing)]
            if starts and ends and (records := _objects(_json(b"\n".join(lines[starts[0] : ends[-1] + 1])))):
                return records
        return []


class _TaggedBlock(Framer):
    """Reads the block that ends the stream; the framing ignores text before it."""

    def __init__(self, framed: Framed) -> None:
        super().__init__(framed)
        self._lines = Lines(self.problems)
        self._open, self._close = f"<{framed.tag}>".encode(), f"</{framed.tag}>".encode()
        self._inside: list[bytes] | None = None
        self._size = 0
        self._block: bytes | None = None
        self._value: Any = None
        self._count = 0

    def feed(self, chunk: bytes) -> Iterable[Record]:
        for line in self._lines.feed(chunk):
            self._take(line.removesuffix(b"\n"))
        return ()

    def finish(self) -> Iterable[Record]:
        for line in self._lines.finish():
            self._take(line)
        if self._block is None:
            if self._count or self._inside is not None:
                self.problems.add(f"no {self._close.decode()} at the end of the stream")
            return []
        if self._count > 1:
            self.problems.add(f"{self._count} blocks of {self._open.decode()}")
        if isinstance(self._value, dict):
            return [self._value]
        self.problems.add(f"the block is {'not JSON' if self._value is _BROKEN else 'not a JSON object'}", self._block)
        return []

    def whole(self) -> Record | None:
        return self._value if self._block is not None and isinstance(self._value, dict) else None

    def _take(self, line: bytes) -> None:
        line = self._without_cr(line)
        if line == self._open:
            self._inside, self._size, self._block = [], 0, None
        elif self._inside is not None and line == self._close:
            self._block, self._inside, self._count = b"\n".join(self._inside), None, self._count + 1
            self._value = _json(self._block)
        elif self._inside is not None and self._size < MAX_TAIL:
            self._inside.append(line)
            self._size += len(line) + 1  # including its newline, since blank lines take space too
        elif line.strip():
            self._block = None


class _Text(_Buffered):
    def __init__(self, framed: Framed) -> None:
        super().__init__(framed)
        self._described = framed.records

    def finish(self) -> Iterable[Record]:
        """Return the records in the text, those at the start of the stream first."""
        self.has_crlf = b"\r\n" in self._kept
        found = self._found()
        return [{"name": name, **match.groupdict()} for name, match in sorted(found, key=lambda one: one[1].start())]

    @property
    def text(self) -> str:
        """The stream without its records and its leading lines of noise, and without newlines at its ends."""
        kept = self._decoded()
        for _, match in sorted(self._found(), key=lambda one: -one[1].start()):
            kept = kept[: match.start()] + kept[match.end() :].removeprefix("\n")
        start = 0
        while start < len(kept):
            end = kept.find("\n", start)
            line = kept[start : end if end >= 0 else len(kept)]
            if line.strip() and not self._is_noise(line.encode()):
                break
            start += len(line) + 1
        return kept[start:].rstrip("\n")

    def _decoded(self) -> str:
        return self._kept.decode("utf-8", "replace")

    def _found(self) -> list[tuple[str, re.Match[str]]]:
        """Return the lines of each record. What else looks like one is text."""
        text = self._decoded() if self._described else ""
        end = {"first": r"(?=\r?$)", "last": r"(?=\s*\Z)"}
        patterns = ((one.name, f"(?m:^)(?:{one.pattern})(?m:{end[one.at]})") for one in self._described)
        return [(name, match) for name, pattern in patterns if (match := re.search(pattern, text))]


_FRAMERS: dict[str, type[Framer]] = {
    "ndjson": _Ndjson,
    "json_document": _JsonDocument,
    "tagged_block": _TaggedBlock,
    "text": _Text,
}


def _objects(document: Any) -> list[Record]:
    """Return a document that is an object, or the objects of a list; none if anything else is in it."""
    if isinstance(document, dict):
        return [document]
    if isinstance(document, list) and all(isinstance(record, dict) for record in document):
        return document
    return []


def parsed(line: bytes) -> Any:
    """Parse a line of JSON, as the framings do; None if it isn't JSON."""
    value = _json(line)
    return None if value is _BROKEN else value


def _json(text: bytes | bytearray) -> Any:
    """Parse JSON, or return `_BROKEN`; replace what is no character.

    That is a lone surrogate, which JavaScript prints for a truncated character, or a byte that isn't UTF-8.
    """
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return _repaired(text)


def _repaired(text: bytes | bytearray) -> Any:
    """Parse broken JSON without what is no character, or return `_BROKEN` if that is not what breaks it."""
    whole = text.decode("utf-8", "replace").encode()
    if b"\\ud" in whole or b"\\uD" in whole:
        whole = _ESCAPE.sub(lambda escape: rb"\ufffd" if escape["half"] else escape[0], whole)
    return _BROKEN if whole == text else _json(whole)


def _is_utf8(text: bytes | bytearray) -> bool:
    return text.isascii() or text.decode("utf-8", "replace").encode() == text
