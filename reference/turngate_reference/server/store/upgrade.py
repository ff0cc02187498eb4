"""Creates the tables of the database, and upgrades those of an earlier turngate after making a copy.

The folder `migrations` has one SQL script for each version of the schema: the first creates the tables, and each later
one changes what the one before left. A new database runs them all, so that it can't differ from an upgraded one. Once a
release has a script, nobody edits it. `PRAGMA user_version` holds the version of a file.
"""

import logging
import os
import random
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from turngate import MachineError, UsageError
from turngate.files import keep_newest, make_private, open_private, sync_folder
from turngate_reference.data_dir import BACKUPS

log = logging.getLogger(__name__)

KEPT = 3
_FOLDER = files("turngate_reference.server.store") / "migrations"
_NAME = re.compile(r"(\d{4})_\w+\.sql")


def migrations() -> dict[int, str]:
    """Return the scripts by the version of the schema that they lead to, in order."""
    named = {name: script for script in _FOLDER.iterdir() if (name := _NAME.fullmatch(script.name))}
    return dict(sorted((int(name[1]), script.read_text("utf-8")) for name, script in named.items()))


def prepare(path: Path, patience: float) -> None:
    """Create the tables in an empty database file, or upgrade those of an earlier turngate; there may be nothing to do.

    An upgrade is one transaction, after a copy was written to the folder `backups` beside the file. While it takes
    place, nobody else can have the file open; others are waited for, up to `patience` seconds. TurngateError: the
    file can't be used, and is unchanged. Any sqlite3.Error and OSError is passed on.
    """
    scripts = migrations()
    newest = max(scripts)
    version = _version(path, scripts, patience)
    if version == newest:
        return
    with closing(_alone(path, version, patience)) as connection:
        if (version := _checked(connection, path, scripts)) == newest:
            return  # another process did it meanwhile
        if version == 0:
            if connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone():
                raise UsageError(f"{path} is another program's database", "use another --data-dir")
            _run(connection, scripts)
            return
        copy = _copied(connection, path, version)
        log.warning("upgrading %s from schema %d to %d; %s is a copy of it as it was", path, version, newest, copy)
        try:
            _run(connection, {number: script for number, script in scripts.items() if number > version})
        except sqlite3.Error as error:
            what = f"the database {path} can't be upgraded from schema {version} to {newest}: {error}"
            hint = "it is unchanged; free some disk space, or use the turngate that wrote it and report this"
            raise MachineError(what, hint) from error


def _version(path: Path, scripts: Mapping[int, str], patience: float) -> int:
    """Return the version of a file without changing it, not even by tidying up after a server that was killed."""
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=patience)) as connection:
        return _checked(connection, path, scripts)


def _checked(connection: sqlite3.Connection, path: Path, scripts: Mapping[int, str]) -> int:
    """Return the version of the schema; UsageError if no script leads from it to the newest."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    first, newest = min(scripts), max(scripts)
    if version > newest:
        what = f"a newer turngate wrote the database {path}: it has schema {version}, this version reads up to {newest}"
        copy = _copy(path, newest)
        saved = f"; {copy} is a copy of before the upgrade" if copy.exists() else ""
        raise UsageError(what, f"it is unchanged: use the newer turngate, or another --data-dir{saved}")
    if 0 < version < first:
        what = f"the database {path} has schema {version}, which no release of turngate had"
        raise UsageError(what, "use the turngate that created it, or another --data-dir")
    return version


def _alone(path: Path, version: int, patience: float) -> sqlite3.Connection:
    """Return the only connection to a file, until it is closed; MachineError if another process keeps one."""
    deadline = time.monotonic() + patience
    while True:
        # it doesn't wait in SQLite: the lock that it holds there would keep the one that upgrades from writing
        connection = sqlite3.connect(path, timeout=0, isolation_level=None)
        try:
            # an earlier turngate that still runs could neither read nor write the new tables
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
            connection.execute(f"PRAGMA busy_timeout = {int(patience * 1000)}")
        except sqlite3.OperationalError as error:
            connection.close()
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            if time.monotonic() >= deadline:
                what = f"the database {path} has the schema {version} of an earlier turngate"
                what += ", and another process has it open"
                raise MachineError(what, "stop the earlier turngate, and try again: it will be upgraded") from error
        else:
            return connection
        time.sleep(random.uniform(0.01, 0.05))  # noqa: S311 - only so that two don't try again at the same time


def _run(connection: sqlite3.Connection, scripts: Mapping[int, str]) -> None:
    """Run scripts in one transaction; sqlite3.Error, and nothing is changed, if that fails."""
    # references are checked at the end only, so that a script can replace a table that others refer to
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for script in scripts.values():
            for statement in _statements(script):
                connection.execute(statement)
        _check_references(connection)
        connection.execute(f"PRAGMA user_version = {max(scripts)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _check_references(connection: sqlite3.Connection) -> None:
    if broken := connection.execute("PRAGMA foreign_key_check").fetchone():
        raise sqlite3.IntegrityError(f"a row of {broken[0]} would refer to a missing row of {broken[2]}")


def _statements(script: str) -> Iterator[str]:
    """Split a script: sqlite3's own `executescript` would commit first."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    yield statement


def _copied(connection: sqlite3.Connection, path: Path, version: int) -> Path:
    """Copy the database with all that was committed, also what is not in its main file yet; keep the newest copies."""
    copy = _copy(path, version)
    part = copy.with_suffix(".part")
    make_private(copy.parent)
    part.unlink(missing_ok=True)
    descriptor = open_private(part, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        with closing(sqlite3.connect(part, isolation_level=None)) as target:
            target.execute("PRAGMA journal_mode = OFF")  # a kill leaves no second file
            connection.backup(target)
        os.fsync(descriptor)
        part.replace(copy)
    finally:
        os.close(descriptor)
        part.unlink(missing_ok=True)
    sync_folder(copy.parent)
    keep_newest(copy.parent, KEPT)
    return copy


def _copy(path: Path, version: int) -> Path:
    return path.parent / BACKUPS / f"{path.stem}-schema-{version}.db"
