"""Handle records: what is needed to continue a conversation, one JSON file a handle.

Schema: `schema/handle-record.json`. Records are written atomically. Those of format 1 had other words for the states;
they are converted when they are read. An unreadable record is never changed.
"""

import json
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import replace

from turngate import MachineError, Mode, NotFoundError, UsageError
from turngate.contract.values import SchemaRule
from turngate.decoding import convert
from turngate.files import read_regular, write_atomically
from turngate.formats import NewerFormatError, version_of
from turngate_reference.data_dir import ALPHABET, HANDLE_LENGTH, DataDir
from turngate_reference.states import State

SCHEMA = "turngate.handle-record/2"
_STATES_OF_1 = {"unfinished": State.RUNNING, "asked": State.WAITING_USER, "answered": State.SUCCEEDED}
DEFAULT_TIMEOUT_SEC = 1200  # also in `openapi.yaml`
_PROMPT_LENGTH = 80
_TIME = Meta(extra_json_schema={"format": "date-time"})


class SessionReference(Struct, frozen=True, omit_defaults=True):
    """The engine's session id; both null: none was found.

    field: The engine's own name of the id.
    seen: Whether the engine's session store held it after the turn that made it; null: nobody knows; absent: it did
        not, or an earlier turngate did not look.
    """

    RULE: ClassVar[SchemaRule] = {
        "oneOf": [
            {"properties": {"field": {"type": "string"}, "value": {"type": "string", "minLength": 1}}},
            {"properties": {"field": {"type": "null"}, "value": {"type": "null"}}},
        ],
        "additionalProperties": True,
    }

    field: str | None
    value: str | None
    seen: bool | None = False


NO_SESSION = SessionReference(None, None)


class LaunchSettings(Struct, frozen=True, kw_only=True):
    """How every turn is launched.

    args: Engine options of the caller, kept on resume.
    cwd: The engine's working directory.
    session_timeout_sec: Time limit in seconds for each turn.
    locations: Variables that decide where the engine keeps its sessions, as turn 1 had them; null: unset.
    trusted_workspace: Whether the operator trusted `cwd` on turn 1, so that files in it could reconfigure the engine.
    unsafe_allowed: Whether the operator allowed the engine on turn 1, whatever its contract says about its safety.
    """

    RULE: ClassVar[SchemaRule] = {"additionalProperties": True}

    args: tuple[str, ...]
    mode: Mode
    model: str | None
    cwd: Path
    session_timeout_sec: Annotated[int, Meta(ge=1)] = DEFAULT_TIMEOUT_SEC
    locations: dict[str, str | None] = {}
    trusted_workspace: bool = False
    unsafe_allowed: bool = False


class HandleRecord(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is needed to continue a conversation with an engine, written before and after every attempt.

    Later versions read it, and ignore fields that they do not know.

    handle: The last eight characters of the run id.
    runId: <timestamp>-<agent>-<handle>
    agentName: The engine, by its contract's name.
    state: The state after the last attempt, in the words of the server; running: it runs, or turngate was killed in it.
    turns: The number of attempts.
    prompt: The beginning of the first prompt.
    served: Whether turngate serve made the run; its database then decides who may continue it.
    engineVersion: The engine's version in the last attempt; absent: not known.
    """

    RULE: ClassVar[SchemaRule] = {
        "required": [
            "schema",
            "handle",
            "runId",
            "runDirectory",
            "agentName",
            "session",
            "launch",
            "state",
            "turns",
            "prompt",
            "createdAt",
            "updatedAt",
        ],
        "additionalProperties": True,
    }

    schema: Annotated[str, Meta(extra_json_schema={"const": SCHEMA})] = SCHEMA
    handle: Annotated[str, Meta(pattern=f"^[{ALPHABET}]{{{HANDLE_LENGTH}}}$")]
    run_id: str
    run_directory: Path
    engine: Annotated[str, Meta(min_length=1)] = field(name="agentName")
    session: SessionReference = NO_SESSION
    launch: LaunchSettings
    state: State
    turns: Annotated[int, Meta(ge=0)]
    prompt: str
    created_at: Annotated[str, _TIME]
    updated_at: Annotated[str, _TIME]
    served: bool = False
    engine_version: str | UnsetType = UNSET

    def to_json(self) -> dict[str, Any]:
        """Return the record as it is stored and printed."""
        data: dict[str, Any] = msgspec.to_builtins(self, enc_hook=str)
        return data

    def updated(self, **changes: Any) -> "HandleRecord":
        """Return the record with changes and the current time."""
        return replace(self, updated_at=now(), **changes)

    @property
    def touched(self) -> datetime:
        """When the record was last written."""
        return datetime.fromisoformat(self.updated_at)


def new(run_directory: Path, engine: str, launch: LaunchSettings, prompt: str, **more: Any) -> HandleRecord:
    """Return the record of a run that starts now; `more` are further fields."""
    at, handle = now(), run_directory.name.rpartition("-")[2]
    return HandleRecord(
        handle=handle,
        run_id=run_directory.name,
        run_directory=run_directory,
        engine=engine,
        launch=launch,
        prompt=" ".join(prompt.split())[:_PROMPT_LENGTH],
        created_at=at,
        updated_at=at,
        **more,
    )


class UnreadableRecordError(MachineError):
    """A record that can't be read, and why."""

    def __init__(self, path: Path, why: str, advice: str = "") -> None:
        super().__init__(f"the record {path} can't be read: {why}", f"it was not changed{advice and f': {advice}'}")


def now() -> str:
    """Return the time as ISO 8601 in UTC."""
    return after(0)


def after(seconds: float) -> str:
    """Return the wall-clock time that many seconds from now, as ISO 8601 in UTC."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="milliseconds")


def write(path: Path, record: HandleRecord) -> None:
    """Write a record atomically: temporary file, fsync, rename; MachineError if it can't be written."""
    # the writer holds the handle's lock, so nobody else writes this file; a leftover from a crash is overwritten
    try:
        write_atomically(path, as_text(record) + "\n", part=path.with_suffix(".tmp"), durable=True, private=True)
    except OSError as error:
        raise MachineError(
            f"the record {path} can't be written: {error.strerror}", "free some disk space or fix its permissions"
        ) from error


class DeletedRecordError(MachineError):
    """A record that should be written again doesn't exist any more."""


def rewrite(path: Path, record: HandleRecord) -> None:
    """Write a record again, as `write` does; DeletedRecordError if somebody has deleted it meanwhile."""
    if not path.exists():
        raise DeletedRecordError(f"the record {path} can't be written: somebody deleted it during the turn")
    write(path, record)


def as_text(record: HandleRecord) -> str:
    """Render a record as ASCII JSON, which also preserves paths that aren't valid UTF-8."""
    return json.dumps(record.to_json(), indent=2)


def find(data: DataDir, prefix: str) -> HandleRecord:
    """Return the record whose handle begins with `prefix`; UsageError if there is none, or more than one."""
    if len(prefix) == HANDLE_LENGTH and {*prefix} <= {*ALPHABET} and os.path.lexists(data.record(prefix)):
        return read(data.record(prefix))  # without listing what may be thousands
    names = [path.stem for path in _paths(data) if prefix and path.stem.startswith(prefix)]
    if not names:
        elsewhere = "" if data.named else "; those of a server with a --data-dir need it, too"
        hint = f"list them: {data.command('handles')}{elsewhere}"
        raise NotFoundError(f"no handle {prefix!r} in {data.handles}", hint)
    if len(names) > 1 and prefix not in names:
        raise UsageError(f"{prefix!r} is ambiguous: {', '.join(names)}", "use more characters")
    return read(data.record(prefix if prefix in names else names[0]))


def every(data: DataDir) -> tuple[list[HandleRecord], list[UnreadableRecordError]]:
    """Return all readable records, newest first, and why the others can't be read."""
    records, unreadable = [], []
    for path in _paths(data):
        try:
            records.append(read(path))
        except UnreadableRecordError as error:
            unreadable.append(error)
    return sorted(records, key=lambda record: record.touched, reverse=True), unreadable


def read(path: Path) -> HandleRecord:
    """Read one record without unknown fields; UnreadableRecordError if that fails."""
    try:
        data = json.loads(read_regular(path))
        if version_of(data["schema"], SCHEMA) == 1:
            data |= {"schema": SCHEMA, "state": _STATES_OF_1.get(data["state"], data["state"])}
        return _checked(convert(data, HandleRecord, dec_hook=lambda kind, text: kind(text)), path.stem)
    except OSError as error:
        raise UnreadableRecordError(path, error.strerror or "it can't be opened") from error
    except NewerFormatError as newer:
        raise UnreadableRecordError(path, str(newer), "use that turngate for this handle") from newer
    except (ValueError, KeyError, TypeError, RecursionError, msgspec.ValidationError) as error:
        raise UnreadableRecordError(path, f"it is not a handle record ({type(error).__name__}: {error})") from error


def _checked(record: HandleRecord, stem: str) -> HandleRecord:
    """Return the record; ValueError if it belongs to another file, or has an invalid time."""
    if record.handle != stem or not re.fullmatch(f"[^/]+-{stem}", record.run_id):
        raise ValueError(f"it names handle {record.handle!r} and run {record.run_id!r}, not its own")
    if any(datetime.fromisoformat(time).tzinfo is None for time in (record.created_at, record.updated_at)):
        raise ValueError("a time has no UTC offset")
    return record if record.session.value else replace(record, session=NO_SESSION)  # an empty id is not a session id


def _paths(data: DataDir) -> list[Path]:
    """Return the files of all records; MachineError if their folder can't be read."""
    handle = re.compile(rf"[{ALPHABET}]{{1,{HANDLE_LENGTH}}}\.json")
    try:
        paths = [*data.handles.iterdir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        hint = "give yourself access to it, or choose another --data-dir"
        raise MachineError(f"{data.handles} can't be read: {error.strerror}", hint) from error
    return sorted(path for path in paths if handle.fullmatch(path.name))
