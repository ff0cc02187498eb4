"""Tests of handle records: written atomically, readable by later versions, unchanged when unreadable."""

import errno
import functools
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reference import cli_env as d
from tests.reference.cli_env import CliEnv
from tests.tables import each
from turngate.contract import load
from turngate_reference import handle_record
from turngate_reference.data_dir import DataDir

KILLED_IN_FSYNC = """
import os, signal, sys
from pathlib import Path
from turngate_reference import handle_record
from turngate_reference.data_dir import DataDir
from turngate_reference.states import State
data = DataDir(Path(sys.argv[1]))
record = handle_record.find(data, sys.argv[2])
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
handle_record.write(data.record(record.handle), record.updated(state=State.SUCCEEDED, turns=99))
"""


@pytest.fixture(name="handle")
def _handle(cli_env: CliEnv) -> str:
    """Provide a conversation."""
    cli_env.engine("codex", d.codex("hi"))
    return cli_env.begin()


def test_a_writer_that_is_killed_leaves_the_old_record(cli_env: CliEnv, handle: str) -> None:
    """A kill between write and rename leaves the old record intact, and the next attempt uses it."""
    before = cli_env.record(handle)
    argv = [sys.executable, "-c", KILLED_IN_FSYNC, str(cli_env.data), handle]
    assert subprocess.run(argv, check=False).returncode == -signal.SIGKILL
    assert cli_env.record(handle) == before
    assert cli_env.type("handles").out.count("\n") == 1
    assert cli_env.type("resume", handle, "go on").code == 0
    assert sorted(path.name for path in (cli_env.data / "handles").iterdir()) == [f"{handle}.json", f"{handle}.lock"]


def test_a_record_is_on_disk_before_it_takes_its_place(
    cli_env: CliEnv, handle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is synced, then renamed, then its folder is synced."""
    data, done = DataDir(cli_env.data), list[str]()
    record = handle_record.find(data, handle)
    fsync, replace = os.fsync, Path.replace

    def synchronised(descriptor: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    def replaced(path: Path, target: Path) -> Path:
        done.append("rename")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synchronised)
    monkeypatch.setattr(Path, "replace", replaced)
    handle_record.write(data.record(record.handle), record)
    assert done == ["file", "rename", "folder"]


def test_a_full_disk_is_told_and_leaves_the_old_record(
    cli_env: CliEnv, handle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the record can't be written, the exit code is 2."""

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    before = cli_env.record(handle)
    monkeypatch.setattr(os, "fsync", full)
    said = cli_env.type("resume", handle, "go on")
    assert (said.code, "No space left on device" in said.err) == (2, True)
    assert cli_env.record(handle) == before


def test_fields_of_a_record_that_are_not_known_are_passed_over(cli_env: CliEnv, handle: str) -> None:
    """A record with additional fields is read."""
    cli_env.change(handle, {"more": {"of": "this"}})
    assert cli_env.type("resume", handle, "go on").code == 0


FIRST_FORMAT = """{
  "schema": "turngate.handle-record/1",
  "handle": "HANDLE",
  "runId": "20260101T000000Z-codex-HANDLE",
  "runDirectory": "ROOT",
  "agentName": "codex",
  "session": {"field": "thread_id", "value": "SESSION"},
  "launch": {"args": ["--model", "x"], "mode": "auto", "model": null, "cwd": "ROOT"},
  "state": "STATE",
  "turns": 3,
  "prompt": "hello",
  "createdAt": "2026-01-01T00:00:00.000+00:00",
  "updatedAt": "2026-01-01T00:00:00.000+00:00"
}
"""


@pytest.mark.parametrize(
    "word, state",
    [
        ("queued", "queued"),
        ("unfinished", "running"),
        ("asked", "waiting_user"),
        ("answered", "succeeded"),
        ("failed", "failed"),
        ("canceled", "canceled"),
    ],
)
def test_a_record_of_format_1_is_read_and_continued(cli_env: CliEnv, handle: str, word: str, state: str) -> None:
    """It is shown in today's words, stays as it is until its next turn, and has the new format after it."""
    path = cli_env.data / "handles" / f"{handle}.json"
    values = {"ROOT": str(cli_env.root), "SESSION": d.SESSION, "STATE": word, "HANDLE": handle}
    first = functools.reduce(lambda text, slot: text.replace(*slot), values.items(), FIRST_FORMAT)
    path.write_text(first)
    shown = json.loads(cli_env.type("handles", "show", handle).out)
    assert (shown["schema"], shown["state"]) == ("turngate.handle-record/2", state)
    assert path.read_text() == first
    assert cli_env.type("resume", handle, "go on").code == 0
    record = cli_env.record(handle)
    assert (record["schema"], record["state"], record["turns"]) == ("turngate.handle-record/2", "succeeded", 4)


BROKEN: dict[str, Any] = {
    "newer": {"schema": "turngate.handle-record/3"},
    "foreign": {"schema": "other/1"},
    "untold": {"schema": None},
    "other-handle": {"handle": "aaaaaaaa"},
    "path-as-run": {"runId": "../x"},
    "no-session": {"session": None},
    "number-as-id": {"session": {"field": "thread_id", "value": 1}},
    "text-as-args": {"launch": {"args": "--yolo", "mode": "auto", "model": None, "cwd": "/"}},
    "no-mode": {"launch": {"args": [], "mode": "yolo", "model": None, "cwd": "/"}},
    "no-time": {"updatedAt": "yesterday"},
    "time-without-offset": {"updatedAt": "2026-01-01T00:00:00"},
    "no-number": {"turns": "many"},
    "word-of-format-1": {"state": "answered"},
    "no-word-of-format-1": {"schema": "turngate.handle-record/1", "state": ["asked"]},
}


@each("how", [*BROKEN, "torn", "empty", "list", "deep", "no-utf-8"])
def test_an_unreadable_record_is_reported_and_left_as_it_is(cli_env: CliEnv, handle: str, how: str) -> None:
    """Whatever is wrong with a record, resume, list, show and prune name it, exit with 2 and change nothing."""
    path = cli_env.data / "handles" / f"{handle}.json"
    whole = path.read_bytes()
    if how in BROKEN:
        cli_env.change(handle, BROKEN[how])
    else:
        path.write_bytes(
            {"torn": whole[:99], "empty": b"", "list": b"[]", "deep": b"[" * 10**5, "no-utf-8": b"\xff" + whole}[how]
        )
    before = path.read_bytes()
    try:
        for words in (("resume", handle[:4], "go on"), ("handles",), ("handles", "show", handle)):
            said = cli_env.type(*words)
            assert said.code == 2, words
            assert "can't be read" in said.err
            assert "it was not changed" in said.err
            assert ("use that turngate for this handle" in said.err) == (how == "newer")
        assert "can't be read" in cli_env.type("handles", "prune", "--older-than", "0h").err
        assert path.read_bytes() == before
        assert len(cli_env.calls()) == 1
    finally:
        path.write_bytes(whole)


def test_an_unreadable_record_hides_no_other(cli_env: CliEnv, handle: str) -> None:
    """The list still shows the readable records."""
    cli_env.change(handle, {"schema": "turngate.handle-record/99"})
    other = cli_env.begin()
    said = cli_env.type("handles")
    assert (said.code, said.out[:8]) == (2, other)
    assert "turngate.handle-record/99, and this version reads up to turngate.handle-record/2" in said.err


def test_a_whole_handle_is_found_without_a_list(cli_env: CliEnv, handle: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of other records don't slow a whole handle down; only a prefix needs their names."""
    data = DataDir(cli_env.data)
    assert handle_record.find(data, handle[:4]).handle == handle
    monkeypatch.setattr(handle_record, "_paths", None)
    assert handle_record.find(data, handle).handle == handle


def test_the_schema_refuses_half_a_session(cli_env: CliEnv, handle: str) -> None:
    """The session's field and value must both be set or both be null."""
    record = cli_env.record(handle)
    assert load.first_error("handle-record", record) is None
    for session in ({"field": None, "value": "x"}, {"field": "thread_id", "value": None}):
        assert load.first_error("handle-record", record | {"session": session}) is not None


def test_a_pipe_in_place_of_a_record_is_reported(cli_env: CliEnv) -> None:
    """A pipe can't be read as a record, and doesn't block the command."""
    (cli_env.data / "handles").mkdir(parents=True)
    os.mkfifo(cli_env.data / "handles" / "22222222.json")
    shown = cli_env.spawn("handles")
    out, err = shown.communicate(timeout=30)
    assert (shown.returncode, out) == (2, "")
    assert "22222222.json can't be read: it isn't a regular file" in err


def test_a_folder_that_can_not_be_read_does_not_look_empty(cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as one of another user."""

    def forbidden(_folder: Path) -> Iterator[Path]:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "iterdir", forbidden)
    said = cli_env.type("handles")
    assert (said.code, f"{cli_env.data / 'handles'} can't be read: Permission denied" in said.err) == (2, True)
