"""Sessions on disk, where the contract's store has them, in a form of our own."""

import json
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from glob import escape, glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from turngate.contract.launch import StoreCheck
from turngate.contract.session_ids import filled, folder_word, slots
from turngate.contract.structs import EngineContract
from turngate.errors import ContractError
from turngate.files import write_atomically

if TYPE_CHECKING:
    from sqlite3 import Connection

_QUERY = re.compile(r"SELECT 1 FROM (?P<table>\w+) WHERE (?P<key>\w+) = \?")
_ELSEWHERE = "{HOME}/.turngate-simulated/sessions/{handle}.jsonl"


@dataclass(slots=True)
class Session:
    """A conversation: where and when (seconds since the epoch) it began, and its messages.

    `reopened` says that it was resumed in a later clock minute than it began in.
    """

    handle: str
    cwd: str
    began_at: float
    reopened: bool = False
    messages: list[Mapping[str, Any]] = field(default_factory=list)


class Shelf(Protocol):
    """Keeps sessions."""

    def find(self, handle: str) -> Session | None:
        """Return the session of that id, if there is one."""

    def keep(self, session: Session) -> None:
        """Write a session, in place of what was kept of it before."""

    def drop(self, session: Session) -> None:
        """Remove a session."""

    def beside(self, session: Session) -> Iterator[Session]:
        """Return every other session of the same directory."""


def shelf(contract: EngineContract, env: Mapping[str, str], cwd: str) -> Shelf:
    """Return the store of a release; one whose contract knows of none keeps its sessions in a folder of ours."""
    locations = contract.store.locations if contract.store else {}
    places = slots(locations, {"HOME": "/", **env}) | {"cwd": folder_word(cwd)}
    if contract.store is None:
        return _Files(_ELSEWHERE, places)
    check = contract.store.check
    if check.kind == "glob":
        return _Files(check.pattern, places)
    return _Table.of(check, Path(filled(check.file, places)))


@dataclass(frozen=True, slots=True)
class _Files:
    """One file a session: its first line tells of it, each further line is a message.

    A wildcard inside the pattern becomes a word made from the session's directory, at its end it becomes nothing.
    """

    pattern: str
    places: Mapping[str, str]

    def find(self, handle: str) -> Session | None:
        return next((session for session in self._matching(handle) if session.handle == handle), None)

    def keep(self, session: Session) -> None:
        path = self._path(session)
        about = asdict(session)
        messages = about.pop("messages")
        write_atomically(path, "".join(json.dumps(line) + "\n" for line in (about, *messages)))

    def drop(self, session: Session) -> None:
        self._path(session).unlink(missing_ok=True)

    def beside(self, session: Session) -> Iterator[Session]:
        for other in self._matching(None):
            if other.handle != session.handle and other.cwd == session.cwd:
                yield other

    def _matching(self, handle: str | None) -> Iterator[Session]:
        places = {name: escape(value) for name, value in self.places.items()}
        pattern = filled(self.pattern, places | {"cwd": "*", "handle": escape(handle) if handle else "*"})
        for path in sorted(glob(pattern)):  # noqa: PTH207 - the pattern is absolute
            about, *messages = map(json.loads, Path(path).read_text("utf-8").splitlines())
            yield Session(**about, messages=messages)

    def _path(self, session: Session) -> Path:
        word = f"{zlib.crc32(session.cwd.encode()):08x}"
        pattern = re.sub(r"\*(?=.)", word, self.pattern).removesuffix("*")
        return Path(filled(pattern, {**self.places, "handle": session.handle}))


@dataclass(frozen=True, slots=True)
class _Table:
    """One row a session, in the table that the contract's query looks into."""

    file: Path
    table: str
    key: str

    @classmethod
    def of(cls, check: StoreCheck, file: Path) -> "_Table":
        match = _QUERY.fullmatch(check.query)
        if match is None:
            hint = "write it as SELECT 1 FROM table WHERE key = ?"
            raise ContractError("the simulator can't make a table for this query", path="$.store", hint=hint)
        return cls(file, match["table"], match["key"])

    def find(self, handle: str) -> Session | None:
        return next((row for row in self._rows() if row.handle == handle), None)

    def keep(self, session: Session) -> None:
        with self._open() as table:
            row = (session.handle, json.dumps(asdict(session)))
            table.execute(f"INSERT OR REPLACE INTO {self.table} VALUES (?, ?)", row)  # noqa: S608 - names, see `of`

    def drop(self, session: Session) -> None:
        with self._open() as table:
            table.execute(f"DELETE FROM {self.table} WHERE {self.key} = ?", (session.handle,))  # noqa: S608

    def beside(self, session: Session) -> Iterator[Session]:
        return (row for row in self._rows() if row.handle != session.handle and row.cwd == session.cwd)

    def _rows(self) -> list[Session]:
        with self._open() as table:
            return [Session(**json.loads(row[0])) for row in table.execute(f"SELECT session FROM {self.table}")]  # noqa: S608

    @contextmanager
    def _open(self) -> Iterator["Connection"]:
        import sqlite3  # noqa: PLC0415 - slow to import, and most stores are files

        self.file.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.file, timeout=30)) as connection, connection:
            connection.execute(f"CREATE TABLE IF NOT EXISTS {self.table} ({self.key} TEXT PRIMARY KEY, session TEXT)")
            yield connection
