"""The probe's journal: one line of JSON per event, written to disk immediately.

Every report is rendered from it.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import msgspec

from turngate import MachineError, UsageError
from turngate.contract.verdict import decode_hook
from turngate.decoding import decode
from turngate.formats import NewerFormatError, version_of
from turngate.sanitize import bounded, redact
from turngate_probes.journal.events import SCHEMA, Event, ReleaseFailed

LONGEST_TEXT = 8000


class _Beginning(msgspec.Struct):
    """What the first line of a journal has in every version."""

    schema: str


class Journal:
    """Writes events to a file and passes them to listeners, in the same order to all. Safe for threads.

    An existing file is replaced; its folder is made. Raises MachineError if it can't be
    written.
    """

    def __init__(self, path: Path, listeners: Sequence[Callable[[Event], None]] = ()) -> None:
        self.path = path
        self._listeners = tuple(listeners)
        self._lock = Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO | None = path.open("wb", buffering=0)
        except OSError as error:
            raise _unwritable(path, error) from error

    def add(self, event: Event) -> None:
        """Write an event, with its texts shortened and secrets removed; dropped once the journal is closed.

        Listeners get it as it is written; they must not add events.
        """
        # a release that needs a package registry can be tested only by someone who knows which
        clean = partial(redact, registries=not isinstance(event, ReleaseFailed))
        cleaned = {"event": "", "at": ""} | _cleaned(msgspec.to_builtins(event), clean)
        with self._lock:
            if self._file is None:
                return
            cleaned["at"] = datetime.now(UTC).isoformat(timespec="milliseconds")
            line = msgspec.json.encode(cleaned)
            try:
                _write_all(self._file, line + b"\n")
            except OSError as error:
                raise _unwritable(self.path, error) from error
            for listener in self._listeners:
                listener(decode(line, Event, dec_hook=decode_hook))

    def close(self) -> None:
        """Close the journal; closing it twice is allowed."""
        with self._lock:
            if self._file is not None:
                self._file.close()
            self._file = None


def read(path: Path) -> Iterator[Event]:
    """Return the events of a journal; an incomplete last line, left by a crash, is skipped.

    Raises UsageError if the file can't be read, a newer turngate wrote it, or another line holds no event.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    yield decode(line, Event, dec_hook=decode_hook)
                except (ValueError, RecursionError) as wrong:
                    if line.endswith(b"\n"):
                        _check_format(path, line)
                        what = f"{path}, line {number} is not an event: {wrong}"
                        raise UsageError(what, "pass a journal that turngate wrote, or run the probe again") from wrong
    except OSError as error:
        raise UsageError(f"can't read the journal {path}: {error.strerror}") from error


def _check_format(path: Path, line: bytes) -> None:
    """Raise UsageError if a line that can't be read begins the journal of a newer turngate."""
    try:
        version_of(decode(line, _Beginning).schema, SCHEMA)
    except NewerFormatError as newer:
        hint = "render it with that turngate, or run the probe again"
        raise UsageError(f"can't read the journal {path}: {newer}", hint) from newer
    except (ValueError, RecursionError):
        return


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        # an undecodable byte of an argv is a lone surrogate, which can't be encoded as UTF-8
        return clean(bounded(value, LONGEST_TEXT)).encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {key: _cleaned(item, clean) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item, clean) for item in value]
    return value


def _write_all(file: BinaryIO, data: bytes) -> None:
    # unbuffered, because a crash would lose the buffer; such a write may be partial
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _unwritable(path: Path, error: OSError) -> MachineError:
    return MachineError(f"can't write the journal {path}: {error.strerror}", "choose another folder")
