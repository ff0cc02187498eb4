"""The form of the file in which a session is stored."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tests.tables import each
from turngate.contract.launch import SessionStore, StoreCheck
from turngate_probes.harness.session_file import session_form

STORE = SessionStore({"X": "{HOME}/x"}, StoreCheck("glob", pattern="{X}/{cwd}/*-{handle}.jsonl"))
DATABASE = SessionStore({"X": "{HOME}/x"}, StoreCheck("sqlite", file="{X}.db", query="SELECT 1"))


@each(
    "text, form",
    [
        ('{"type": "meta", "id": "1", "by": {"a": {"b": 1}, "m-1": 2}}\n[]\n?\n', ["meta", "by", "by.a", "id"]),
        ('{"id": "1",\n "messages": [{"a": 1}]}', ["session", "id", "messages"]),
        ("?", []),
    ],
)
def test_the_form_is_the_kinds_and_the_keys_of_records(text: str, form: list[str], tmp_path: Path) -> None:
    """Without values, and without keys that are values; a document is one record."""
    (tmp_path / "x/-w").mkdir(parents=True)
    (tmp_path / "x/-w/t-s.jsonl").write_text(text)
    kind, *keys = form or [""]
    expected = (kind, *(f"{kind}: {key}" for key in keys)) if form else ()
    assert session_form(STORE, "s", {"HOME": str(tmp_path)}, Path("/w")) == expected


def test_the_form_of_a_database_is_its_tables(tmp_path: Path) -> None:
    """With their columns."""
    with closing(sqlite3.connect(tmp_path / "x.db")) as database:
        database.execute("CREATE TABLE t (a TEXT, b INT)")
    assert session_form(DATABASE, "s", {"HOME": str(tmp_path)}, Path("/w")) == ("t", "t: a", "t: b")


@each("store, handle", [(STORE, "s"), (DATABASE, "s"), (STORE, None), (None, "s")])
def test_what_is_not_stored_has_no_form(store: SessionStore | None, handle: str | None, tmp_path: Path) -> None:
    """A file that is not there, no session, or a contract that names no place."""
    assert session_form(store, handle, {"HOME": str(tmp_path)}, Path("/w")) == ()
