"""Standard input of a call: recorded as it arrives, and kept for the engine."""

import io
import os
import threading

from turngate_probes.conform.calls import CallRecord

STDIN = 0


class RecordedStdin(io.RawIOBase):
    """Standard input, which a thread reads to its end and records; `over` is set when it has ended."""

    def __init__(self, record: CallRecord) -> None:
        super().__init__()
        self.over = threading.Event()
        self._record, self._changed, self._kept = record, threading.Condition(), bytearray()
        threading.Thread(target=self._listen, name="stdin", daemon=True).start()

    def readable(self) -> bool:
        """Always, as far as this object is concerned."""
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        """Wait for data, and take what fits into the buffer; 0 at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._kept or self.over.is_set())
            taken = min(len(self._kept), len(buffer))
            buffer[:taken] = self._kept[:taken]
            del self._kept[:taken]
            return taken

    def whole(self) -> bytes:
        """Wait for the end, and return everything without taking it."""
        self.over.wait()
        return bytes(self._kept)

    def _listen(self) -> None:
        chunk = b"-"
        while chunk:
            try:
                chunk = os.read(STDIN, 2**16)
            except OSError:
                chunk = b""
            self._record.read(chunk)
            with self._changed:
                self._kept += chunk
                if not chunk:
                    self.over.set()
                self._changed.notify_all()
