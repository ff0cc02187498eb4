"""The files that runs changed, in the store."""

import sqlite3
from typing import Literal

from msgspec import Struct

from turngate.decoding import convert
from turngate_reference.server.store.database import Store

MAX_FILES = 1000  # of a run
MAX_KEPT = 8 * 2**20  # bytes of earlier texts, of a run
Change = Literal["added", "modified", "deleted"]
# what a run did to a file whose change is known, when a later turn changes it again; None: nothing in the end
_AFTERWARDS: dict[tuple[Change, Change], Change | None] = {
    ("added", "modified"): "added",
    ("added", "deleted"): None,
    ("deleted", "added"): "modified",
}
_LIST = """
    SELECT path, change, turn_index, size, earlier_text IS NOT NULL AS has_before
    FROM files WHERE run_id = ? ORDER BY path
"""


class ChangedFile(Struct, frozen=True):
    """A file that a run changed; `turn_index` is the last turn that did, and `size` is in bytes, after that turn.

    `has_before` says that the text that it had before the run was kept.
    """

    path: str
    change: Change
    turn_index: int
    size: int
    has_before: bool


class FileChange(Struct, frozen=True):
    """What a turn did to a file; `before` is its earlier text (None: it had none, or it is too large)."""

    path: str
    change: Change
    size: int
    before: bytes | None = None


class TurnChanges(Struct, frozen=True):
    """What a turn changed, and why some of it may be missing (None: nothing is)."""

    files: list[FileChange]
    gap: str | None = None


def record(connection: sqlite3.Connection, run_id: str, turn_index: int, changes: TurnChanges) -> None:
    """Add what a turn changed to what its run changed before."""
    gap = changes.gap
    known = {row["path"]: row["change"] for row in connection.execute(_LIST, (run_id,))}
    kept: int = connection.execute(
        "SELECT total(length(earlier_text)) FROM files WHERE run_id = ?", (run_id,)
    ).fetchone()[0]
    for file in changes.files:
        if (earlier := known.get(file.path)) is not None:
            now = _AFTERWARDS.get((earlier, file.change), file.change)
            if now is None:
                connection.execute("DELETE FROM files WHERE run_id = ? AND path = ?", (run_id, file.path))
                continue
            sql = "UPDATE files SET change = ?, turn_index = ?, size = ? WHERE run_id = ? AND path = ?"
            connection.execute(sql, (now, turn_index, file.size, run_id, file.path))
            continue
        if len(known) >= MAX_FILES:
            gap = f"the run changed more than {MAX_FILES} files"
            break
        known[file.path] = file.change
        before = file.before if file.before is not None and kept + len(file.before) <= MAX_KEPT else None
        kept += len(before or b"")
        connection.execute(
            "INSERT INTO files (run_id, path, change, turn_index, size, earlier_text) VALUES (?, ?, ?, ?, ?, ?)",
            (run_id, file.path, file.change, turn_index, file.size, before),
        )
    if gap:
        sql = "UPDATE turns SET files_gap = ? WHERE run_id = ? AND turn_index = ?"
        connection.execute(sql, (gap, run_id, turn_index))


def changed(store: Store, run_id: str) -> list[ChangedFile]:
    """Read what a run changed, by path."""
    return [convert(dict(row), ChangedFile, strict=False) for row in store.read(_LIST, run_id)]


def find(store: Store, run_id: str, path: str) -> tuple[ChangedFile, bytes | None] | None:
    """Read a file that a run changed, with the text that it had before; None if it changed no such file."""
    sql = "SELECT *, earlier_text IS NOT NULL AS has_before FROM files WHERE run_id = ? AND path = ?"
    for row in store.read(sql, run_id, path):
        values = {name: row[name] for name in ChangedFile.__struct_fields__}
        return convert(values, ChangedFile, strict=False), row["earlier_text"]
    return None


def gaps(store: Store, run_id: str) -> list[str]:
    """Read why changes may be missing, each reason once."""
    sql = "SELECT DISTINCT files_gap FROM turns WHERE run_id = ? AND files_gap IS NOT NULL ORDER BY files_gap"
    return [row["files_gap"] for row in store.read(sql, run_id)]
