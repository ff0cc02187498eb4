"""Checks whether an engine's session store contains a session."""

import re
from collections.abc import Mapping
from contextlib import closing
from itertools import takewhile
from pathlib import Path
from stat import S_ISREG

from turngate.contract.launch import SessionStore
from turngate.contract.session_ids import filled, folder_word, slots

_BUSY_SECONDS = 2.0
_NOT_THERE = (FileNotFoundError, NotADirectoryError)


def session_exists(
    store: SessionStore | None, handle: str, locations: Mapping[str, str | None], cwd: Path | str
) -> bool | None:
    """Return whether the session exists; None: there is no store, or it can't be read.

    `locations` are the variables that decide where sessions are stored, including HOME; `cwd` is the session's
    directory.
    """
    if store is None:
        return None
    try:
        values = slots(store.locations, locations) | {"handle": handle, "cwd": folder_word(str(cwd))}
        if store.check.kind == "sqlite":
            return _in_database(Path(filled(store.check.file, values)), store.check.query, handle)
        if "/" in handle or handle in ("", ".", ".."):  # no name of a file: the pattern would match files elsewhere
            return False
        first, *names = store.check.pattern.split("/")
        start = Path(filled(first, values) or "/")
        return _below(start, names, values) if start.is_absolute() else None
    except (OSError, ValueError, KeyError):
        return None


def session_place(store: SessionStore, handle: str, locations: Mapping[str, str | None], cwd: Path | str) -> str:
    """Return the database, or the pattern of the file, that holds a session, with the values of its slots."""
    values = slots(store.locations, locations) | {"handle": handle, "cwd": folder_word(str(cwd))}
    return filled(store.check.file if store.check.kind == "sqlite" else store.check.pattern, values)


def store_is_there(store: SessionStore, locations: Mapping[str, str | None]) -> bool:
    """Return whether the file or the folder exists that holds all sessions; one that was moved away can come back."""
    try:
        values = slots(store.locations, locations)
        if store.check.kind == "sqlite":
            return Path(filled(store.check.file, values)).exists()
        first, *names = store.check.pattern.split("/")
        fixed = takewhile(lambda name: "*" not in name and "{" not in name, names)
        return Path(filled(first, values) or "/", *fixed).is_dir()
    except (OSError, ValueError, KeyError):
        return False


def _below(path: Path, names: list[str], values: Mapping[str, str]) -> bool | None:
    """Return whether `names`, with `*` for any text, lead to a file below a path; None if a folder can't be read."""
    try:
        if not names:
            path.lstat()
            return True
        if "*" not in names[0]:
            return _below(path / filled(names[0], values), names[1:], values)
        parts = (re.escape(filled(part, values)) for part in names[0].split("*"))
        wanted = re.compile(".*".join(parts), re.DOTALL)
        below = [_below(entry, names[1:], values) for entry in path.iterdir() if wanted.fullmatch(entry.name)]
    except _NOT_THERE:
        return False
    except OSError:
        return None
    return True if True in below else None if None in below else False


def _in_database(file: Path, query: str, handle: str) -> bool | None:
    import sqlite3  # noqa: PLC0415 - slow to import, and most stores are files

    if not file.is_absolute():
        return None
    try:
        if not S_ISREG(file.stat().st_mode):
            return None
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=_BUSY_SECONDS)) as database:
            return database.execute(query, (handle,)).fetchone() is not None
    except _NOT_THERE:
        return False
    except sqlite3.Error:
        return None
