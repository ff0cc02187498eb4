"""Session lookups in real directories and databases."""

import os
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.contracts.releases import NEWEST, session_of
from tests.tables import each
from turngate.contract.engine_contract import EngineContract
from turngate.contract.launch import SessionStore, StoreCheck
from turngate.process.session_store import session_exists

ID = "11111111-2222-4333-8444-555555555555"
Here = Callable[..., bool | None]
SESSIONS = {
    "claude": ".claude/projects/-work/{id}.jsonl",
    "codex": ".codex/sessions/2026/11/22/rollout-2026-11-22T01-48-49-{id}.jsonl",
    "gemini": ".gemini/tmp/work/chats/session-2026-11-22T01-53-{id:.8}.jsonl",
    "qwen": ".qwen/projects/-work/chats/{id}.jsonl",
}


def written(home: Path, name: str) -> Path:
    """Create a session's file."""
    file = home / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    return file


def asked(engine: str, handle: str, home: Path, **variables: str | None) -> bool | None:
    """Look up a session in the store of an engine."""
    return session_exists(NEWEST[engine].store, handle, {"HOME": str(home), **variables}, "/work")


@pytest.mark.parametrize("engine, name", SESSIONS.items())
def test_a_file_is_found_where_the_engine_keeps_it(engine: str, name: str, tmp_path: Path) -> None:
    """Only the session's own file counts, not that of another one or an empty home."""
    assert asked(engine, ID, tmp_path) is False
    written(tmp_path, name.format(id=ID[::-1]))
    assert asked(engine, ID, tmp_path) is False
    written(tmp_path, name.format(id=ID))
    assert asked(engine, ID, tmp_path) is True
    assert asked(engine, ID, tmp_path / "other") is False


def test_variables_say_where(tmp_path: Path) -> None:
    """The engine's variables select the store, including variables that depend on others."""
    written(tmp_path / "q", f"projects/-work/chats/{ID}.jsonl")
    assert asked("qwen", ID, tmp_path, QWEN_HOME=str(tmp_path / "q")) is True
    assert asked("qwen", ID, tmp_path, QWEN_RUNTIME_DIR=str(tmp_path / "q")) is True
    assert asked("qwen", ID, tmp_path, QWEN_RUNTIME_DIR=None) is False


@each("engine", sorted(NEWEST))
def test_without_a_place_nothing_can_be_told(engine: str) -> None:
    """Without a store, a home or a known directory, the answer is unknown."""
    contract: EngineContract = NEWEST[engine]
    handle, store = session_of(contract), contract.store
    assert session_exists(store, handle, {}, "/work") is None
    assert session_exists(store, handle, {"HOME": None}, "/work") is None
    assert session_exists(store, handle, {"HOME": "relative"}, "/work") is None


@each("home", ["[a]", "a*", "?", "{handle}", "a b", "é\n", "%41#?x"])
def test_a_home_may_have_any_name(home: str, tmp_path: Path) -> None:
    """Wildcard and URL characters in a home's name are taken literally."""
    for decoy in ("a", "ab", "x", "h"):
        written(tmp_path / decoy, SESSIONS["codex"].format(id=ID))
    (tmp_path / home).mkdir()
    assert asked("codex", ID, tmp_path / home) is False
    written(tmp_path / home, SESSIONS["codex"].format(id=ID))
    assert asked("codex", ID, tmp_path / home) is True


@each("handle", ["*", "?" * 36, "[1]" + ID[1:], f"../-work/{ID}", "", ".", "..", "\0", "x" * 5000])
def test_a_handle_is_a_name_and_no_pattern(handle: str, tmp_path: Path) -> None:
    """Wildcard characters in a handle match nothing, even if a session exists."""
    for engine in ("codex", "claude"):
        written(tmp_path, SESSIONS[engine].format(id=ID))
        assert not asked(engine, handle, tmp_path)


@each("handle", ["", ".", "..", "a/b", "../other"])
def test_an_id_in_a_path_is_one_component(handle: str, tmp_path: Path) -> None:
    """An id that isn't the name of a file leads nowhere, even if that place exists."""
    for place in ("", "sessions/", "sessions/a/b/", "other/"):
        written(tmp_path, f"{place}events.jsonl")
    store = SessionStore({}, StoreCheck("glob", pattern="{HOME}/sessions/{handle}/events.jsonl"))
    assert session_exists(store, handle, {"HOME": str(tmp_path)}, "/work") is False


@each("handle", ["*", "?", "[ab]", "a*b", "{handle}", "\\", "A B"])
def test_an_id_of_an_unfamiliar_shape_is_found(handle: str, tmp_path: Path) -> None:
    """Characters of patterns in an id stand for themselves, before and behind a wildcard of the store's."""
    written(tmp_path, SESSIONS["codex"].format(id=handle))
    assert asked("codex", handle, tmp_path) is True
    assert asked("codex", f"x{handle}", tmp_path) is False


def test_a_directory_may_stand_in_the_path(tmp_path: Path) -> None:
    """A store may group sessions by the name of their directory."""
    store = SessionStore({}, StoreCheck("glob", pattern="{HOME}/{cwd}/{handle}"))
    written(tmp_path, "-my-work/h")
    assert session_exists(store, "h", {"HOME": str(tmp_path)}, Path("/my work")) is True
    assert session_exists(store, "h", {"HOME": str(tmp_path)}, "/work") is False


def test_what_can_not_be_read_leaves_the_question_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a directory can't be read the answer is unknown, unless the session is found elsewhere."""
    closed = written(tmp_path, SESSIONS["claude"].format(id="other")).parent
    really = Path.iterdir

    def listed(path: Path) -> Iterator[Path]:
        if path == closed.parent.parent / "locked":
            raise PermissionError(13, "Permission denied")
        return really(path)

    monkeypatch.setattr(Path, "iterdir", listed)
    store = SessionStore({}, StoreCheck("glob", pattern="{HOME}/.claude/*/*/{handle}.jsonl"))
    locked = closed.parent.parent / "locked"
    locked.mkdir()
    assert session_exists(store, ID, {"HOME": str(tmp_path)}, "/work") is None
    written(tmp_path, SESSIONS["claude"].format(id=ID))
    assert session_exists(store, ID, {"HOME": str(tmp_path)}, "/work") is True
    locked.rmdir()
    shutil.rmtree(closed)
    assert session_exists(store, ID, {"HOME": str(tmp_path)}, "/work") is False


@pytest.fixture(name="database")
def _database(tmp_path: Path) -> Path:
    """Create a database as OpenCode does, in write-ahead mode, with one session and a home that needs quoting."""
    file = tmp_path / "h%41#?" / ".local/share/opencode/opencode.db"
    file.parent.mkdir(parents=True)
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE session (id TEXT PRIMARY KEY)")
        connection.execute("INSERT INTO session VALUES ('ses_1')")
    return file


@pytest.fixture(name="here")
def _here(database: Path) -> Here:
    """Look up a session in OpenCode's store."""
    return lambda handle, **more: asked("opencode", handle, database.parents[3], **more)


def test_a_row_is_found(here: Here, database: Path) -> None:
    """The session's row is found; the handle is passed as a value, so it can't change the query."""
    assert here("ses_1") is True
    assert here("ses_2") is False
    assert here("' OR 1=1 --") is False
    assert here("ses_1", XDG_DATA_HOME="/nowhere") is False
    assert here("ses_1", XDG_DATA_HOME="/nowhere", OPENCODE_DB=str(database)) is True


@pytest.mark.parametrize("place", [":memory:", "relative.db"])
def test_a_database_somewhere_else_is_not_guessed_at(here: Here, place: str) -> None:
    """A database at a relative path can't be looked up if the contract doesn't name its folder."""
    assert here("ses_1", OPENCODE_DB=place) is None


def test_a_database_is_only_read(here: Here, database: Path) -> None:
    """A lookup doesn't change the file, and doesn't create a missing one."""
    before = database.read_bytes(), database.stat().st_mtime_ns
    here("ses_1")
    assert (database.read_bytes(), database.stat().st_mtime_ns) == before
    absent = database.with_name("absent.db")
    assert here("ses_1", OPENCODE_DB=str(absent)) is False
    assert not absent.exists()


def test_a_database_in_use_is_read_or_left_open(here: Here, database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In write-ahead mode a writer doesn't block the lookup; an exclusive lock makes the answer unknown."""
    monkeypatch.setattr("turngate.process.session_store._BUSY_SECONDS", 0.01)
    with closing(sqlite3.connect(database, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert here("ses_1") is True
        writer.execute("ROLLBACK")
        writer.execute("PRAGMA journal_mode = DELETE")
        writer.execute("BEGIN EXCLUSIVE")
        assert here("ses_1") is None


@pytest.mark.parametrize("damage", ["other", "text", "empty", "folder", "pipe"])
def test_a_database_of_another_kind_tells_nothing(here: Here, database: Path, damage: str) -> None:
    """With another schema, another file type, or a path that would block, the answer is unknown."""
    for file in database.parent.iterdir():
        file.unlink()
    match damage:
        case "other":
            with closing(sqlite3.connect(database)) as connection, connection:
                connection.execute("CREATE TABLE sessions (id TEXT)")
        case "text":
            database.write_text("no database\n" * 100)
        case "empty":
            database.touch()
        case "folder":
            database.mkdir()
        case "pipe":
            os.mkfifo(database)
            assert stat.S_ISFIFO(database.stat().st_mode)
    assert here("ses_1") is None
