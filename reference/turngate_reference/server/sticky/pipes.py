"""The pipes of one sticky process on the event loop, its trace on disk, and the news of its end."""

import asyncio
import os
import re
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import IO, cast

from turngate.process import is_alive
from turngate.sanitize import visible
from turngate.turn.framing import Lines, Problems

TAIL = 2**12
EXITED = "it has exited"
_DEAF = "it can't be written to"
_LOOK = 0.3  # seconds between two looks at a process where the system can't tell of its end
_DRAIN = 0.1  # seconds in which the last output may still be read once the process has ended
# what moves the cursor, colours or names the window: CSI, OSC and other strings, two-character escapes
_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]")


class ProcessPipes:
    """Lines to and from a process, traced; `lost` is done, with the reason, once it can't be talked to any more.

    It is lost when the started process exits, even if others hold its pipes, when a pipe ends, and when it can't
    be written to. `on_line` gets what it prints; a line of more than 8 MiB is dropped.
    """

    def __init__(self, process: subprocess.Popen[bytes], traces: Path) -> None:
        self.process = process
        self.lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.on_line: Callable[[bytes], None] = lambda _line: None
        self._protocol, self._stderr = Trace(traces / "protocol"), Trace(traces / "stderr")
        self._lines = Lines(Problems())
        self._tail = b""
        self._transports: list[asyncio.BaseTransport] = []
        self._stdin: asyncio.WriteTransport | None = None
        self._pidfd: int | None = None
        self._reasons: list[str] = []

    async def connect(self) -> None:
        """Begin to read, and to watch for the end."""
        loop = asyncio.get_running_loop()
        streams = [cast(IO[bytes], s) for s in (self.process.stdin, self.process.stdout, self.process.stderr)]
        for stream in streams:
            os.set_blocking(stream.fileno(), False)
        stdin, stdout = _Pipe(lambda: self.lose(_DEAF)), _Pipe(lambda: self.lose("its output has ended"), self._read)
        stderr = _Pipe(lambda: None, self._read_stderr)
        self._stdin, _ = await loop.connect_write_pipe(lambda: stdin, streams[0])
        out, _ = await loop.connect_read_pipe(lambda: stdout, streams[1])
        err, _ = await loop.connect_read_pipe(lambda: stderr, streams[2])
        self._transports = [self._stdin, out, err]
        self._watch(loop)

    def send(self, line: bytes) -> None:
        """Write a line; one that can't be written makes the process lost."""
        self._protocol.line(">", line)
        if self._stdin is None or self._stdin.is_closing():
            self.lose(_DEAF)
        else:
            self._stdin.write(line + b"\n")

    @property
    def last_words(self) -> str:
        """The last line on standard error, without control sequences of a terminal."""
        text = _SEQUENCE.sub("", self._tail.decode("utf-8", "replace"))
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return visible(lines[-1])[:300] if lines else ""

    def close(self) -> None:
        """Close the pipes and the traces."""
        loop = asyncio.get_running_loop()
        for transport in self._transports:
            if not transport.is_closing():
                transport.abort() if isinstance(transport, asyncio.WriteTransport) else transport.close()
        if self._pidfd is not None:
            loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self._protocol.close()
        self._stderr.close()
        if not self.lost.done():
            self.lost.cancel()

    def _read(self, chunk: bytes) -> None:
        for line in self._lines.feed(chunk):
            self._protocol.line("<", line)
            self.on_line(line)

    def _read_stderr(self, chunk: bytes) -> None:
        self._stderr.write(chunk)
        self._tail = (self._tail + chunk)[-TAIL:]

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Have the exit of the started process told, without reaping it and without a thread."""
        with suppress(OSError, AttributeError):
            self._pidfd = os.pidfd_open(self.process.pid)
            loop.add_reader(self._pidfd, self._exited)
            return
        self._look(loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        if self.lost.done():
            return
        if is_alive(self.process.pid):
            loop.call_later(_LOOK, self._look, loop)
        else:
            self.lose(EXITED)

    def _exited(self) -> None:
        if self._pidfd is not None:
            asyncio.get_running_loop().remove_reader(self._pidfd)
        self.lose(EXITED)

    def lose(self, why: str) -> None:
        """Give the process up, once what it printed last has been read; its exit is the reason before others."""
        if not self.lost.done():
            self._reasons.append(why)
            if len(self._reasons) == 1:
                asyncio.get_running_loop().call_later(_DRAIN, self._say_lost)

    def _say_lost(self) -> None:
        if not self.lost.done():
            why, words = EXITED if EXITED in self._reasons else self._reasons[0], self.last_words
            self.lost.set_result(f"{why}; it said: {words}" if words else why)


class _Pipe(asyncio.Protocol):
    """Tells what a pipe holds, and its end."""

    def __init__(self, ended: Callable[[], None], read: Callable[[bytes], None] = lambda _data: None) -> None:
        self._read, self._ended = read, ended

    def data_received(self, data: bytes) -> None:
        self._read(data)

    def connection_lost(self, _exc: Exception | None) -> None:
        self._ended()


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
