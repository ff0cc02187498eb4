"""The threads at a process's pipes: they read its output within limits, and write its input."""

import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import IO, cast

_CHUNK = 65536  # bytes, what a pipe holds on Linux


class Pipes:
    """The pipes of a started process, with a thread at each that needs one.

    `data` is written to its input, which is then closed; if `data` is None an input stays open until `close`.
    The first `limit` bytes of each output are kept, and those `dropped` are counted. `on_output` gets the name of a
    stream and a chunk, never twice at once; what it raises ends the reading of that stream and goes to `on_failure`.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        data: bytes | None,
        limit: int,
        on_output: Callable[[str, bytes], object],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.dropped = 0
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self._limit = limit
        self._on_output = on_output
        self._on_failure = on_failure
        self._one_call = threading.Lock()
        stdout, stderr = cast(IO[bytes], process.stdout), cast(IO[bytes], process.stderr)
        self._threads = [
            (stdout, _thread("stdout", self._read, "stdout", stdout)),
            (stderr, _thread("stderr", self._read, "stderr", stderr)),
        ]
        self._idle = process.stdin if data is None else None
        if process.stdin and data is not None:
            self._threads.append((process.stdin, _thread("stdin", _write_all, process.stdin, data)))

    def kept(self, name: str) -> bytes:
        """Return what was kept of a stream."""
        return bytes(self._kept[name])

    def start(self) -> None:
        """Start to read, and to write if there is something to write."""
        for _, thread in self._threads:
            thread.start()

    def close(self, grace: float) -> None:
        """Close the input and wait until both outputs have ended, `grace` seconds at most."""
        if self._idle:
            self._idle.close()
        deadline = time.monotonic() + grace
        for stream, thread in self._threads:
            if thread.ident is None:  # an interrupt came before its start
                stream.close()
            else:
                thread.join(max(deadline - time.monotonic(), 0))

    def _read(self, name: str, stream: IO[bytes]) -> None:
        kept = self._kept[name]
        try:
            with stream:
                while chunk := stream.read(_CHUNK):
                    with self._one_call:
                        part = chunk[: max(self._limit - len(kept), 0)]
                        kept += part
                        self.dropped += len(chunk) - len(part)
                        self._on_output(name, chunk)
        except Exception as error:  # noqa: BLE001 - it is raised again where run() was called
            self._on_failure(error)


def _thread(name: str, work: Callable[..., None], *args: object) -> threading.Thread:
    # a daemon: a leftover that can't be ended may hold the pipe for ever
    return threading.Thread(target=work, args=args, name=f"turngate-{name}", daemon=True)


def _write_all(stream: IO[bytes], data: bytes) -> None:
    """Write `data` to the unbuffered `stream` and close it; a process may exit without reading it."""
    with suppress(BrokenPipeError), stream:
        rest = memoryview(data)
        while rest:
            rest = rest[stream.write(rest) :]
