"""Sessions on disk, at the location of the contract's store, in turngate's own format."""

import fcntl
import json
import re
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from glob import escape, glob
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from turngate import ContractError, EngineContract
from turngate.contract.session_ids import filled, folder_word, slots
from turngate.files import write_atomically

_QUERY = re.compile(r"SELECT 1 FROM (?P<table>\w+) WHERE (?P<key>\w+) = \?")
_LOCKS = ".turngate-simulated/locks"  # below the home
_ELSEWHERE = "{HOME}/.turngate-simulated/sessions/{handle}.jsonl"


class SimulatedSession(Struct):
    """A conversation: where and when (seconds since the epoch) it started, and its messages.

    `reopened` says that it was resumed in a later clock minute than it began in; `left` says how its last turn left it:
    after a tool `call`, a `failure` of the model, a `kill`, which a turn overwrites when it ends, or otherwise (empty).
    """

    handle: str
    cwd: str
    began_at: float
    reopened: bool = False
    left: str = ""
    messages: list[Mapping[str, Any]] = []


class SimulatedStore(ABC):
    """Stores sessions."""

    @abstractmethod
    def keep(self, session: SimulatedSession) -> None:
        """Write a session, replacing its earlier state."""

    @abstractmethod
    def drop(self, session: SimulatedSession) -> None:
        """Remove a session."""

    @abstractmethod
    def sessions(self, handle: str | None = None) -> list[SimulatedSession]:
        """Read every session, or only those that may have this id."""

    def find(self, handle: str, cwd: str | None = None) -> SimulatedSession | None:
        """Return the session of that id, if there is one; preferably that of the directory `cwd`."""
        found = [session for session in self.sessions(handle) if session.handle == handle]
        return next((session for session in found if session.cwd == cwd), found[0] if found else None)

    def in_order(self, cwd: str, place: int = 0) -> str | None:
        """Return the id of a directory's session at a place: 1 is the oldest, 0 the newest; None: it has none."""
        own = (session for session in self.sessions() if session.cwd == cwd)
        sessions = sorted(own, key=lambda session: session.began_at)
        return sessions[place - 1].handle if place <= len(sessions) and sessions else None

    def others(self, session: SimulatedSession) -> list[SimulatedSession]:
        """Return every other session of the same directory."""
        return [other for other in self.sessions() if other.handle != session.handle and other.cwd == session.cwd]


def store(contract: EngineContract, env: Mapping[str, str], cwd: str) -> SimulatedStore:
    """Return the store of a release; a default folder if its contract has none."""
    locations = contract.store.locations if contract.store else {}
    places = slots(locations, {"HOME": "/", **env}) | {"cwd": folder_word(cwd)}
    if contract.store is None:
        return _Files(_ELSEWHERE, places)
    check = contract.store.check
    if check.kind == "glob":
        return _Files(check.pattern, places)
    match = _QUERY.fullmatch(check.query)
    if match is None:
        hint = "write it as SELECT 1 FROM table WHERE key = ?"
        raise ContractError("the simulator can't make a table for this query", path="$.store", hint=hint)
    return _Table(Path(filled(check.file, places)), match["table"], match["key"])


@contextmanager
def held(env: Mapping[str, str], handle: str) -> Iterator[bool]:
    """Keep a session to this process while the block runs; False if another one has it."""
    if "HOME" not in env:
        yield True
        return
    folder = Path(env["HOME"], _LOCKS)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{zlib.crc32(handle.encode()):08x}").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


class _Files(SimulatedStore):
    """One file per session: its first line describes it, each further line is a message.

    A wildcard inside the pattern becomes a word made from the session's directory, at its end it becomes nothing.
    """

    def __init__(self, pattern: str, places: Mapping[str, str]) -> None:
        self.pattern, self.places = pattern, places

    def keep(self, session: SimulatedSession) -> None:
        about = asdict(session)
        messages = about.pop("messages")
        write_atomically(self._path(session), "".join(json.dumps(line) + "\n" for line in (about, *messages)))

    def drop(self, session: SimulatedSession) -> None:
        self._path(session).unlink(missing_ok=True)

    def sessions(self, handle: str | None = None) -> list[SimulatedSession]:
        places = {name: escape(value) for name, value in self.places.items()}
        pattern = filled(self.pattern, places | {"cwd": "*", "handle": escape(handle) if handle else "*"})
        sessions = []
        for path in sorted(glob(pattern)):  # noqa: PTH207 - the pattern is absolute
            with suppress(TypeError, ValueError):  # a session of the real engine
                about, *messages = map(json.loads, Path(path).read_text("utf-8").splitlines())
                sessions.append(SimulatedSession(**about, messages=messages))
        return sessions

    def _path(self, session: SimulatedSession) -> Path:
        word = f"{zlib.crc32(session.cwd.encode()):08x}"
        pattern = re.sub(r"\*(?=.)", word, self.pattern).removesuffix("*")
        return Path(filled(pattern, {**self.places, "handle": session.handle}))


class _Table(SimulatedStore):
    """One row per session, in the table of the contract's query."""

    def __init__(self, file: Path, table: str, key: str) -> None:
        self.file, self.table, self.key = file, table, key

    def keep(self, session: SimulatedSession) -> None:
        self._run("INSERT OR REPLACE INTO {table} VALUES (?, ?)", session.handle, json.dumps(asdict(session)))

    def drop(self, session: SimulatedSession) -> None:
        self._run("DELETE FROM {table} WHERE {key} = ?", session.handle)

    def sessions(self, handle: str | None = None) -> list[SimulatedSession]:  # noqa: ARG002 - a table is read at once
        return [SimulatedSession(**json.loads(row[0])) for row in self._run("SELECT session FROM {table}")]

    def _run(self, statement: str, *values: str) -> list[tuple[str, ...]]:
        """Run a statement, `{table}` and `{key}` filled in, and return its rows."""
        import sqlite3  # noqa: PLC0415 - slow to import, and most stores are files

        self.file.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.file, timeout=30)) as connection, connection:
            connection.execute(f"CREATE TABLE IF NOT EXISTS {self.table} ({self.key} TEXT PRIMARY KEY, session TEXT)")
            return connection.execute(statement.format(table=self.table, key=self.key), values).fetchall()
