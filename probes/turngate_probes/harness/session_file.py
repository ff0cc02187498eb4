"""Reads the form of the file in which a release stores a session: its kinds of records with their keys, or its tables.

What it says is no part of it.
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from turngate.contract.launch import SessionStore
from turngate.contract.session_ids import filled, folder_word, slots
from turngate.files import read_regular

STEP = "session"
_LARGEST = 8 * 2**20
_MOST = 1000
_LONGEST = 160
_DEEPEST = 2
_COLUMNS = "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table'"


def session_form(store: SessionStore | None, handle: str | None, env: Mapping[str, str], cwd: Path) -> tuple[str, ...]:
    """Return each kind of record, and each of its keys as `kind: key.path`; none if there is no file or too much."""
    if store is None or handle is None:
        return ()
    values = slots(store.locations, env) | {"handle": handle, "cwd": folder_word(str(cwd))}
    try:
        if store.check.kind == "sqlite":
            found = set(_tables(Path(filled(store.check.file, values))))
        else:
            file = min(Path("/").glob(filled(store.check.pattern, values).lstrip("/")))
            found = set(_names(read_regular(file, _LARGEST).decode("utf-8", "replace")))
    except (OSError, ValueError, KeyError, sqlite3.Error):
        return ()
    return tuple(sorted(name[:_LONGEST] for name in found)) if len(found) <= _MOST else ()


def _tables(file: Path) -> Iterator[str]:
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as database:
        for table, column in database.execute(_COLUMNS):
            yield from (table, f"{table}: {column}")


def _names(text: str) -> Iterator[str]:
    """Yield the names in lines of JSON, or else in the only document."""
    for part in (text,) if _record(text) else text.splitlines():
        if record := _record(part):
            kind = str(record.pop("type", None) or "session")
            yield from (kind, *(f"{kind}: {path}" for path in _paths(record, _DEEPEST)))


def _record(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _paths(record: Mapping[str, Any], depth: int) -> Iterator[str]:
    """Yield the keys that are names; others, such as those of models, are contents."""
    for key, value in record.items():
        if key.isidentifier():
            yield key
            inner = value if isinstance(value, dict) and depth > 1 else {}
            yield from (f"{key}.{path}" for path in _paths(inner, depth - 1))
