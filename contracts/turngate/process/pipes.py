"""The pipes of a started process: threads read its output within the limits, and write its input."""

import os
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, cast

from turngate.process.guard_proof import GuardProof, unguarded
from turngate.process.output_file import OutputFile

_CHUNK = 65536  # bytes, the capacity of a pipe on Linux
_ATOMIC = 512  # bytes that can be written to an empty pipe without waiting, on every system
_LOOK = 0.1  # seconds between two checks of the reading threads


class Pipes:
    """The pipes of a started process, with a thread for each that needs one.

    `data` is written to its input, which is then closed; with `proof`, only once that is given. If `data` is None, an
    input stays open until `close`. The first `limit` bytes of each output are kept; `dropped` counts the rest.
    `on_output` gets the name of a stream and a chunk, one call at a time. An exception in it ends the reading of that
    stream and is passed to `on_failure`, like the lack of a proof. `file` is read in the place of a pipe for stdout.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        data: bytes | None,
        limit: int,
        on_output: Callable[[str, bytes], object],
        on_failure: Callable[[Exception], None],
        proof: GuardProof | None = None,
        file: OutputFile | None = None,
    ) -> None:
        self.dropped = 0
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self._limit = limit
        self._on_output = on_output
        self._on_failure = on_failure
        self._one_call = threading.Lock()
        self._deadline, self._spent = float("inf"), 0.0
        self._closing = threading.Event()
        self._call_began: float | None = None
        self._file = file
        stdout, stderr = file or cast("IO[bytes]", process.stdout), cast("IO[bytes]", process.stderr)
        self._threads: list[tuple[IO[bytes] | OutputFile, threading.Thread]] = [
            (stdout, _thread("stdout", self._read, "stdout", stdout)),
            (stderr, _thread("stderr", self._read, "stderr", stderr)),
        ]
        self._idle = process.stdin if data is None else None
        if process.stdin and data is not None:
            self._threads.append((process.stdin, _thread("stdin", self._write, process, data, proof)))

    def kept(self, name: str) -> bytes:
        """Return the bytes kept of a stream."""
        return bytes(self._kept[name])

    def start(self) -> None:
        """Start reading, and writing if there is data."""
        for _, thread in self._threads:
            thread.start()

    def close(self, grace: float, hurries: Callable[[], bool] = lambda: False) -> None:
        """Close the input and wait until both outputs have ended, `grace` seconds at most.

        Time spent in `on_output` does not count unless `hurries`, so that no data that was read is lost.
        """
        self._closing.set()
        if self._file:
            self._file.end()
        if self._idle:
            self._idle.close()
        self._deadline, self._spent = time.monotonic() + grace, 0.0
        for stream, thread in self._threads:
            if thread.ident is None:  # interrupted before its start
                stream.close()
            while thread.is_alive() and (left := self._seconds_left(hurries=hurries())) > 0:
                thread.join(min(left, _LOOK))

    def _read(self, name: str, stream: IO[bytes] | OutputFile) -> None:
        kept = self._kept[name]
        try:
            with stream:
                while chunk := stream.read(_CHUNK):
                    with self._one_call:
                        part = chunk[: max(self._limit - len(kept), 0)]
                        kept += part
                        self.dropped += len(chunk) - len(part)
                        self._take_in(name, chunk)
        except Exception as error:  # noqa: BLE001 - it is raised again where run() was called
            self._on_failure(error)

    def _write(self, process: subprocess.Popen[bytes], data: bytes, proof: GuardProof | None) -> None:
        stdin, first = cast("IO[bytes]", process.stdin), 0
        with suppress(BrokenPipeError), stdin:
            if proof is not None:
                guard = proof.wait(self._closing.is_set)
                if guard is None:
                    if not self._closing.is_set():
                        why = "did not go on, and was ended before its guard had an effect"
                        self._on_failure(unguarded(str(cast("Sequence[str]", process.args)[0]), why))
                    return
                # the engine goes on when the guard's pipe ends, and may not wait long for its input
                try:
                    first = stdin.write(data[:_ATOMIC])
                finally:
                    os.close(guard)
            rest = memoryview(data)[first:]
            while rest:
                rest = rest[stdin.write(rest) :]

    def _take_in(self, name: str, chunk: bytes) -> None:
        began = self._call_began = time.monotonic()
        try:
            self._on_output(name, chunk)
        finally:
            self._spent += time.monotonic() - began
            self._call_began = None

    def _seconds_left(self, *, hurries: bool) -> float:
        began = self._call_began
        spent = 0.0 if hurries else self._spent
        return self._deadline + spent - (time.monotonic() if hurries or began is None else began)


def _thread(name: str, work: Callable[..., None], *args: object) -> threading.Thread:
    # a daemon, since a leftover that can't be ended may keep the pipe open forever
    return threading.Thread(target=work, args=args, name=f"turngate-{name}", daemon=True)
