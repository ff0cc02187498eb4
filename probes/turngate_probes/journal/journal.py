"""The probe's journal: one line of JSON per event, on disk as soon as it happened.

Every report is rendered from it.

Events, each with `event` (its kind) and `at` (ISO 8601, UTC, milliseconds):

- `probe.started`: schema, turngate, machine, level, strict, cores, clauses (those that were asked; none: all)
- `release.planned`: release (the key that later events name), engine, version, executable, source,
  contract_version, turns (how many are expected), note
- `install.progress`: release, text
- `turn`: release, case, step, argv, cwd, exit_code, ended, seconds, cpu_seconds, stdout and stderr (bytes,
  excerpt), requests, handle, outcome, failure_reason, leftovers
  where the streams were read: kinds of records and key paths in them; where the model asked for a tool: acted, told
- `page`: release, case, step, argv, exit_code, ended, cpu_seconds, stdout, stderr and names: of a plain command
- `call`: release, case, step, method, path, status, sent and answer (JSON as text): of the reference server
- `clause`: release, id, level, severity, result, detail, stale, evidence (turns, as `case/step`); of one that was not
  run the clauses that it needs, or a reason in the environment
- `release.finished`: release, verdict, profile, capability, handle, seconds, engine_seconds, turns,
  unverified
- `release.failed`: release, reason, what, hint: the question could not be asked
- `probe.finished`: seconds, engine_seconds, interrupted
"""

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from os import PathLike, fspath
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from turngate.errors import EnvironmentFailed
from turngate.sanitize import bounded, redact

SCHEMA = "turngate.probe-events/1"
LONGEST_TEXT = 8000

Event = dict[str, Any]


class Journal:
    """Writes events to a file and tells them to listeners, in the same order to all. Safe for threads.

    A file that is there already is replaced; its folder is made. Raises EnvironmentFailed if it can't be
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

    def add(self, kind: str, **fields: Any) -> None:
        """Write one event, its texts bounded and without secrets; dropped once the journal is closed.

        Fields are JSON values, paths or dataclasses. A listener must not add events.
        """
        cleaned = {key: _cleaned(value) for key, value in fields.items()}
        with self._lock:
            if self._file is None:
                return
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            event: Event = {"event": kind, "at": at, **cleaned}
            try:
                _write_all(self._file, json.dumps(event, allow_nan=False).encode() + b"\n")
            except OSError as error:
                raise _unwritable(self.path, error) from error
            for listener in self._listeners:
                listener(event)

    def close(self) -> None:
        """End the journal; closing twice does no harm."""
        with self._lock:
            if self._file is not None:
                self._file.close()
            self._file = None


def read(path: Path) -> Iterator[Event]:
    """Return the events of a journal; a last line that a crash left torn is skipped.

    Raises EnvironmentFailed if the file can't be read or another line holds no event.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                event = _parsed(line)
                if event is not None:
                    yield event
                elif line.endswith(b"\n"):
                    what = f"{path}, line {number}: no event"
                    raise EnvironmentFailed(what, "is this the journal of a probe?")
    except OSError as error:
        raise EnvironmentFailed(f"the journal {path} can't be read: {error.strerror}") from error


def _parsed(line: bytes) -> Event | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    if not isinstance(event, dict):
        return None
    return event if isinstance(event.get("event"), str) and isinstance(event.get("at"), str) else None


def _cleaned(value: Any) -> Any:
    if isinstance(value, PathLike):
        value = fspath(value)
    if isinstance(value, str):
        # an undecodable byte of an argv is a lone surrogate, which no UTF-8 output takes
        return redact(bounded(value, LONGEST_TEXT)).encode("utf-8", "backslashreplace").decode()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = dataclasses.asdict(value)
    if isinstance(value, Mapping):
        return {str(key): _cleaned(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(each) for each in value]
    return value


def _write_all(file: BinaryIO, data: bytes) -> None:
    # unbuffered, since a buffer would be lost in a crash; such a write may take less than it was given
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def _unwritable(path: Path, error: OSError) -> EnvironmentFailed:
    return EnvironmentFailed(f"the journal {path} can't be written: {error.strerror}", "choose another place")
