"""A data directory that a killed server of schema 3 left, with a run in every state; what a later schema may change.

`data_dirs/make` made `data_dirs/schema-3.tar.xz`; the code of that time has to make another one, so never change it.
"""

import os
import sqlite3
import tarfile
from collections.abc import Mapping
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path

from turngate_reference.data_dir import DataDir
from turngate_reference.server.store import upgrade

_MADE_IN = "/srv/turngate"
_ARCHIVE = Path(__file__).with_name("data_dirs") / "schema-3.tar.xz"
# the handle of each run, and of a conversation of `turngate start`
QUEUED, RUNNING, STICKY, WAITING, ALSO_WAITING = "as6f5463", "2jsx6y7z", "y85pb8dg", "y2zaxqxs", "5q9dmjd7"
SUCCEEDED, FAILED, CANCELED, STARTED = "mfxkahqr", "54dq8nxj", "9d5798fw", "bb22pg3c"
# a column, a table that others refer to made anew, and data in a new form
CHANGES = """
-- Notes about a run.
ALTER TABLE runs ADD COLUMN notes_json TEXT NOT NULL DEFAULT '[]';

CREATE TABLE new_interactions (
    interaction_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs (run_id),
    turn_index INTEGER NOT NULL,
    question_json TEXT NOT NULL,  -- a comment; with a semicolon
    request_id TEXT,
    asked_at TEXT NOT NULL,
    response TEXT,
    answered_at TEXT,
    unsent_json TEXT,
    answered_by TEXT
) STRICT, WITHOUT ROWID;
INSERT INTO new_interactions SELECT *, iif(response IS NULL, NULL, 'user; or terminal') FROM interactions;
DROP TABLE interactions;
ALTER TABLE new_interactions RENAME TO interactions;
CREATE INDEX interactions_by_run ON interactions (run_id, turn_index);
"""


def unpack(root: Path) -> DataDir:
    """Unpack the data directory and the home of its engines below `root`; return the data directory.

    The database is as a killed server leaves one: part of it is not in its main file yet.
    """
    with tarfile.open(_ARCHIVE) as archive:
        archive.extractall(root, filter="data")
    data = DataDir(root / "data")
    for file in [*data.handles.glob("*.json"), *(path for path in (root / "home").rglob("*") if path.is_file())]:
        file.write_text(file.read_text().replace(_MADE_IN, str(root)))
    process = get_context("fork").Process(target=_move, args=(data.database, str(root)))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert data.database.with_name("turngate.db-wal").stat().st_size
    return data


def _move(database: Path, root: str) -> None:
    """Replace the paths in every text of the database, and exit without tidying up."""
    connection = sqlite3.connect(database)
    for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
        for _, name, kind, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall():
            if kind == "TEXT":
                connection.execute(f"UPDATE {table} SET {name} = replace({name}, ?, ?)", (_MADE_IN, root))
    connection.commit()
    os._exit(0)


def later_schema(folder: Path, changes: str = CHANGES) -> Path:
    """Return a folder with the scripts of turngate and one that leads to the next version of the schema."""
    folder.mkdir()
    scripts = {**upgrade.migrations(), max(upgrade.migrations()) + 1: changes}
    for number, script in scripts.items():
        (folder / f"{number:04}_script.sql").write_text(script)
    return folder


def rows(database: Path) -> Mapping[str, list[tuple[object, ...]]]:
    """Read every row with the tables and columns that the oldest schema has."""
    with closing(sqlite3.connect(database)) as connection, closing(sqlite3.connect(":memory:")) as oldest:
        oldest.executescript(upgrade.migrations()[3])
        tables = {
            name: ", ".join(row[1] for row in oldest.execute(f"PRAGMA table_info({name})"))
            for (name,) in oldest.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        }
        return {
            name: connection.execute(f"SELECT {columns} FROM {name}").fetchall() for name, columns in tables.items()
        }


def version(database: Path) -> int:
    """Return the version of the schema."""
    with closing(sqlite3.connect(database)) as connection:
        number: int = connection.execute("PRAGMA user_version").fetchone()[0]
        return number
