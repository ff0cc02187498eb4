"""Handle records: what is needed to continue a conversation, one JSON file a handle.

Shape: `schema/handle-record.json`. A record is written whole or not at all, and one that can't be read is left
as it is.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from turngate.errors import EnvironmentFailed
from turngate.files import write_atomically
from turngate.model import Mode
from turngate_reference.data_dir import ALPHABET, HANDLE_LENGTH, DataDir

SCHEMA = "turngate.handle-record/1"
_FAMILY, _, _VERSION = SCHEMA.rpartition("/")
PROMPT_KEPT = 80


class HandleRecord(Struct, frozen=True):
    """A conversation: its run, its engine's session (both None: not found) and how the engine is launched.

    `locations` are variables that every later turn gets as turn 1 had them (None: unset); `served` says whether
    `turngate serve` made the run.
    """

    handle: str
    run_id: str
    run_directory: Path
    engine: str
    session_field: str | None
    session_value: str | None
    args: tuple[str, ...]
    mode: Mode
    model: str | None
    cwd: Path
    locations: dict[str, str | None]
    state: str
    turns: int
    prompt: str
    created_at: str
    updated_at: str
    served: bool

    def to_json(self) -> dict[str, Any]:
        """Return the record as it is stored and printed."""
        return {
            "schema": SCHEMA,
            "handle": self.handle,
            "runId": self.run_id,
            "runDirectory": str(self.run_directory),
            "agentName": self.engine,
            "session": {"field": self.session_field, "value": self.session_value},
            "launch": {
                "args": list(self.args),
                "mode": self.mode.value,
                "model": self.model,
                "cwd": str(self.cwd),
                "locations": self.locations,
            },
            "state": self.state,
            "turns": self.turns,
            "prompt": self.prompt,
            "createdAt": self.created_at,
            "updatedAt": self.updated_at,
            "served": self.served,
        }

    def updated(self, **changes: Any) -> "HandleRecord":
        """Return the record with changes, and with the time of now."""
        return replace(self, updated_at=now(), **changes)

    @property
    def touched(self) -> datetime:
        """When the record was last written."""
        return datetime.fromisoformat(self.updated_at)


class Unreadable(Struct, frozen=True):
    """A record that can't be read, and why."""

    path: Path
    why: str


def now() -> str:
    """Return the time as ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def write(path: Path, record: HandleRecord) -> None:
    """Write a record atomically: temporary file, fsync, rename; EnvironmentFailed if it can't be written."""
    # the writer holds the handle's lock, so no other writes this file; one that a crash left is written over
    try:
        write_atomically(path, as_text(record) + "\n", part=path.with_suffix(".tmp"), durable=True)
    except OSError as error:
        raise EnvironmentFailed(f"the record {path} can't be written: {error.strerror}", "make room") from error


def as_text(record: HandleRecord) -> str:
    """Render a record as it is stored and shown: ASCII, so that paths that are no text survive too."""
    return json.dumps(record.to_json(), indent=2)


def find(data: DataDir, prefix: str) -> HandleRecord:
    """Return the record whose handle begins with `prefix`; EnvironmentFailed if there is none, or more than one."""
    names = [path.stem for path in _paths(data) if path.stem.startswith(prefix)] if _is_prefix(prefix) else []
    if not names:
        raise EnvironmentFailed(f"there is no handle {prefix!r} in {data.handles}", "see: turngate handles")
    if len(names) > 1 and prefix not in names:
        raise EnvironmentFailed(f"{prefix!r} may be any of {', '.join(names)}", "give more of its characters")
    found = read(data.record(prefix if prefix in names else names[0]))
    if isinstance(found, Unreadable):
        raise EnvironmentFailed(f"the record {found.path} can't be read: {found.why}", "it is left as it is")
    return found


def every(data: DataDir) -> Iterator[HandleRecord | Unreadable]:
    """Read all records, the newest first; those that can't be read come last."""
    found = [read(path) for path in _paths(data)]
    readable = [each for each in found if isinstance(each, HandleRecord)]
    yield from sorted(readable, key=lambda each: each.touched, reverse=True)
    yield from (each for each in found if isinstance(each, Unreadable))


def read(path: Path) -> HandleRecord | Unreadable:
    """Read one record of this or an earlier format; fields that are not known are passed over."""
    try:
        data = json.loads(path.read_text("utf-8"))
        family, _, version = str(data["schema"]).rpartition("/")
        if family != _FAMILY or int(version) > int(_VERSION):
            return Unreadable(path, f"its format is {data['schema']}; this turngate reads up to {SCHEMA}")
        return _from_json(data, path.stem)
    except OSError as error:
        return Unreadable(path, error.strerror or "it can't be opened")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return Unreadable(path, f"it is not a handle record ({type(error).__name__}: {error})")


def _from_json(data: dict[str, Any], stem: str) -> HandleRecord:
    session, launch = data["session"], data["launch"]
    texts = [data[key] for key in ("handle", "runId", "runDirectory", "agentName", "state", "prompt")]
    texts += [data["createdAt"], data["updatedAt"], launch["mode"], launch["cwd"], *launch["args"]]
    locations, served = launch.get("locations", {}), data.get("served", False)
    texts += list(locations)
    optional = [session["field"], session["value"], launch["model"], *locations.values()]
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(o, str | None) for o in optional):
        raise TypeError("a field is no text")
    if not isinstance(launch["args"], list) or not isinstance(data["turns"], int) or not isinstance(served, bool):
        raise TypeError("launch.args is no list, turns no number, or served no boolean")
    if data["handle"] != stem or not re.fullmatch(f"[^/]+-{stem}", data["runId"]):
        raise ValueError(f"it says that its handle is {data['handle']!r}, of run {data['runId']!r}")
    if any(datetime.fromisoformat(data[key]).tzinfo is None for key in ("createdAt", "updatedAt")):
        raise ValueError("a time has no offset from UTC")
    value = session["value"] or None  # an empty id is none
    return HandleRecord(
        handle=data["handle"], run_id=data["runId"], run_directory=Path(data["runDirectory"]),
        engine=data["agentName"], session_field=session["field"] if value else None, session_value=value,
        args=tuple(launch["args"]), mode=Mode(launch["mode"]), model=launch["model"], cwd=Path(launch["cwd"]),
        locations=locations, state=data["state"], turns=data["turns"], prompt=data["prompt"],
        created_at=data["createdAt"], updated_at=data["updatedAt"], served=served,
    )  # fmt: skip


def _paths(data: DataDir) -> list[Path]:
    return sorted(path for path in data.handles.glob("*.json") if _is_prefix(path.stem))


def _is_prefix(text: str) -> bool:
    return re.fullmatch(f"[{ALPHABET}]{{1,{HANDLE_LENGTH}}}", text) is not None
