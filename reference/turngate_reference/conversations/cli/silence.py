"""Says on stderr that the engine has given no text for a while, and what it printed last, such as that it retries."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

from turngate.contract.launch import Stream
from turngate.sanitize import last_lines
from turngate_reference.conversations.cli.printing import note_quoted

LIMIT = 30.0  # seconds
_KEPT = 2**14


class Silence:
    """Looks each `LIMIT` seconds whether the engine gave a text, and says once what it printed last."""

    def __init__(self) -> None:
        self._looks = 0
        self._printed = bytearray()
        self._said: list[str] | None = None

    def text(self) -> None:
        """Take note that the engine gave a text; the next look is too early to miss another one."""
        self._looks, self._said = -1, None

    def output(self, _stream: Stream, chunk: bytes) -> None:
        """Take what the engine printed on either stream."""
        self._printed += chunk
        del self._printed[:-_KEPT]

    def look(self) -> None:
        """Say that the engine gives no text, unless its last line was already shown."""
        self._looks += 1
        if self._looks == 0:
            self._printed.clear()
            return
        last = last_lines(self._printed.decode("utf-8", "replace"), 1)
        if last == self._said:
            return
        self._said = last
        # a closed stderr must not end the turn
        with suppress(OSError):
            seconds = f"{self._looks * LIMIT:.0f} s"
            click.echo(f"the engine has given no text for {seconds}; waiting (Ctrl-C ends the turn)", err=True)
            for line in last:
                note_quoted(line, "it printed last: ")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look while the block runs."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(LIMIT):
                self.look()

        threading.Thread(target=watch, name="turngate-silence", daemon=True).start()
        try:
            yield
        finally:
            over.set()
