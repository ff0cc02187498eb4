"""Tests of run directories, new handles, their locks, and the location of the data directory."""

import errno
import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.reference import cli_env as d
from tests.reference.cli_env import CliEnv
from tests.reference.server_env import ServerEnv, final
from turngate import files
from turngate.errors import MachineError, TurngateError
from turngate_reference import data_dir as folders
from turngate_reference.data_dir import (
    ALPHABET,
    HANDLE_LENGTH,
    DataDir,
    RunningServer,
    data_dir,
    locked,
    new_handle,
    running_server,
)
from turngate_reference.states import State

HANDLE = "[2-9a-hjkmnp-tv-z]{8}"


def test_a_run_directory_is_named_by_time_engine_and_handle(cli_env: CliEnv) -> None:
    """The name is `<UTC timestamp>-<engine>-<handle>`, and the data directory is private to its user."""
    cli_env.engine("codex", d.codex("hi"))
    handle = cli_env.begin()
    (run,) = (cli_env.data / "runs").iterdir()
    assert re.fullmatch(rf"\d{{8}}T\d{{6}}Z-codex-{HANDLE}", run.name)
    assert run.name.endswith(handle)
    assert cli_env.data.stat().st_mode & 0o077 == 0


def test_handles_are_of_characters_that_can_not_be_misread() -> None:
    """Handles contain none of 0, 1, i, l, o and u, and no capital letters."""
    assert set(ALPHABET) == set("23456789abcdefghjkmnpqrstvwxyz")


def test_new_handles_use_every_character_in_every_place() -> None:
    """Each of a thousand handles is new, and no place of a handle lacks a character of the alphabet."""
    handles = {new_handle() for _ in range(1000)}
    assert len(handles) == 1000
    assert {len(handle) for handle in handles} == {HANDLE_LENGTH}
    assert [set(place) for place in zip(*handles, strict=True)] == [set(ALPHABET)] * HANDLE_LENGTH


def test_a_new_handle_is_none_that_exists(cli_env: CliEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handle that has a lock file or a record is never used again."""
    cli_env.engine("codex", d.codex("hi"))
    first = cli_env.begin()
    (cli_env.data / "handles" / f"{first}.lock").unlink()
    drawn = iter((first, "22222222", "22222222", "33333333"))
    monkeypatch.setattr(folders, "new_handle", lambda: next(drawn))
    assert cli_env.begin() == "22222222"
    assert cli_env.begin() == "33333333"


def test_the_data_directory_is_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The option wins over TURNGATE_DATA_DIR, which wins over the platform's default; an empty variable is ignored."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TURNGATE_DATA_DIR", "~/variable")
    assert data_dir(Path("/option")).root == Path("/option")
    (tmp_path / "link").symlink_to("variable")
    assert data_dir(tmp_path / "link" / "x").root == tmp_path / "variable" / "x"
    assert data_dir(None).root == tmp_path / "variable"
    monkeypatch.setattr(files, "default_data", lambda: Path("/platform/turngate"))
    monkeypatch.setenv("TURNGATE_DATA_DIR", "")
    assert data_dir(None).root == Path("/platform/turngate")
    monkeypatch.delenv("TURNGATE_DATA_DIR")
    assert data_dir(None).root == Path("/platform/turngate")


@pytest.mark.parametrize(
    "mark, why",
    [(b"turngate.data-dir/2\n", "a newer turngate wrote it"), (b"\xff", "its format is"), (b"2", "its format is")],
)
def test_a_directory_with_another_layout_is_refused(tmp_path: Path, mark: bytes, why: str) -> None:
    """A later turngate may place files elsewhere; then nothing is made or changed here."""
    data = DataDir(tmp_path / "data")
    data.make()
    data.check_layout()
    (data.root / ".turngate-data").write_bytes(mark)
    for use in (data.check_layout, data.make):
        with pytest.raises(TurngateError, match=why):
            use()
    assert [(path.name, path.read_bytes()) for path in data.root.iterdir()] == [(".turngate-data", mark)]
    for earlier in (b"", b"turngate.data-dir/1"):
        (data.root / ".turngate-data").write_bytes(earlier)
        data.check_layout()


def test_commands_in_hints_name_the_directory_that_was_asked_for(tmp_path: Path) -> None:
    """A directory from the command line is repeated, quoted if needed; another one is found without it."""
    assert data_dir(None).command("handles") == "turngate handles"
    assert data_dir(tmp_path / "x y").command("handles") == f"turngate handles --data-dir '{tmp_path}/x y'"


def test_a_data_directory_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    """If the run directory can't be created, the error says what to do."""
    (tmp_path / "file").touch()
    with (
        pytest.raises(MachineError, match=r"file/data can't be written: Not a directory \(use another directory"),
        DataDir(tmp_path / "file" / "data").new_run("codex"),
    ):
        raise AssertionError


def _modes(data: Path) -> set[tuple[bool, int]]:
    """Return the modes of the directories below a data directory, and those of the other files."""
    return {(path.is_dir(), path.stat().st_mode & 0o777) for path in data.rglob("*")}


def test_a_data_directory_is_for_its_user_alone_whatever_the_umask(closed_server_env: ServerEnv) -> None:
    """Even with umask 0 in an open directory, everything that turngate or its server makes has mode 0600 or 0700."""
    server_env, cli_env = closed_server_env, closed_server_env.cli_env
    before = os.umask(0)
    try:
        cli_env.engine("codex", d.codex(final()), d.codex("hi"), d.codex("again"))
        cli_env.data.mkdir()
        with server_env.opened():
            server_env.wait(server_env.create(), State.SUCCEEDED)
            assert {path.name for path in cli_env.data.glob("turngate.db*")} > {"turngate.db-wal"}
            assert _modes(cli_env.data) == {(True, 0o700), (False, 0o600)}
        handle = cli_env.begin()
        assert cli_env.type("resume", handle, "on").code == 0
    finally:
        os.umask(before)
    assert _modes(cli_env.data) == {(True, 0o700), (False, 0o600)}
    assert cli_env.data.stat().st_mode & 0o777 == 0o777  # turngate didn't create it


def test_what_was_open_to_others_is_tightened(cli_env: CliEnv) -> None:
    """Wider modes from an earlier version are tightened; files that turngate didn't create are left alone."""
    cli_env.engine("codex", d.codex("hi"), d.codex("again"))
    cli_env.begin()
    (cli_env.data / ".turngate-data").unlink()
    for name, mode in (("runs", 0o755), ("handles", 0o777), ("versions.json", 0o644)):
        (cli_env.data / name).chmod(mode)
    cli_env.begin()
    assert {path.name: path.stat().st_mode & 0o777 for path in cli_env.data.iterdir()} == {
        "runs": 0o700,
        "handles": 0o700,
        "versions.json": 0o600,
        ".turngate-data": 0o600,
    }
    (cli_env.data / "notes").touch()
    (cli_env.data / "notes").chmod(0o644)
    (cli_env.data / "runs").rename(cli_env.root / "elsewhere")
    (cli_env.data / "runs").symlink_to(cli_env.root / "elsewhere")
    (cli_env.root / "elsewhere").chmod(0o755)
    cli_env.begin()
    assert (cli_env.data / "notes").stat().st_mode & 0o777 == 0o644
    assert (cli_env.root / "elsewhere").stat().st_mode & 0o777 == 0o755


def test_a_directory_that_leads_nowhere_is_refused(cli_env: CliEnv) -> None:
    """A link that leads to itself is an error of one line, whatever the version of Python."""
    (cli_env.root / "loop").symlink_to("loop")
    at = ("--data-dir", str(cli_env.root / "loop"))
    for words in (("start", "codex", *at, "hello"), ("serve", "--port", "0", *at), ("handles", *at)):
        said = cli_env.type(*words)
        assert said.code == 2
        assert "can't be used: Too many levels of symbolic links\nchoose another one with --data-dir" in said.err


@pytest.mark.parametrize("names", [["thesis.txt"], ["runs"], ["turngate.db", "thesis.txt"]])
def test_a_directory_of_somebody_else_is_refused(cli_env: CliEnv, names: list[str]) -> None:
    """A non-empty directory that turngate didn't create is left unchanged."""
    cli_env.engine("codex", d.codex("hi"))
    cli_env.data.mkdir()
    for name in names:
        (cli_env.data / name).touch()
        (cli_env.data / name).chmod(0o644)
    at = ("--data-dir", str(cli_env.data))
    for words in (("start", "codex", *at, "hello"), ("serve", "--port", "0", *at)):
        said = cli_env.type(*words)
        assert said.code == 2
        assert (
            f"{cli_env.data} is not empty and was not created by turngate\nuse --data-dir or TURNGATE_DATA_DIR"
            in said.err
        )
    assert {path.name: path.stat().st_mode & 0o777 for path in cli_env.data.iterdir()} == dict.fromkeys(names, 0o644)


@pytest.mark.parametrize("note,holder", [(None, "process {pid}, since 20"), ("torn", "another process")])
def test_a_lock_names_its_holder(tmp_path: Path, note: str | None, holder: str) -> None:
    """A second holder is rejected, with the first one's name if it is known; then the lock is free again."""
    lock = tmp_path / "abc.lock"
    with locked(lock, "abc"):
        if note:
            lock.write_text(note)
        with (
            pytest.raises(MachineError, match=f"abc is in use by {holder.format(pid=os.getpid())}"),
            locked(lock, "abc"),
        ):
            raise AssertionError
    with locked(lock, "abc"):
        assert str(os.getpid()) in lock.read_text()
    assert lock.read_text() == ""


def test_a_lock_that_can_not_be_had_is_named(tmp_path: Path) -> None:
    """If the lock file's folder is missing, the error says what to do."""
    with pytest.raises(MachineError, match="can't be locked: No such file"), locked(tmp_path / "x" / "y", "abc"):
        raise AssertionError


@contextmanager
def locked_by_hand(path: Path) -> Iterator[None]:
    """Lock a file without changing it."""
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def test_a_lock_needs_no_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk, what takes room can be removed."""

    def full(_file: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("turngate_reference.data_dir.os.write", full)
    with locked(tmp_path / "lock", "h"), pytest.raises(MachineError, match="in use"), locked(tmp_path / "lock", "h"):
        pass


@pytest.mark.parametrize("file", [None, Path("/home/me/token")])
def test_a_running_server_says_how_it_is_reached(tmp_path: Path, file: Path | None) -> None:
    """The URL and the file with the token are known while the server holds its lock; other lock holders give none."""
    data, server = DataDir(tmp_path), RunningServer("http://127.0.0.1:1", file)
    assert running_server(data) is None
    with locked(data.server_lock, "x", server=server):
        assert running_server(data) == server
    assert running_server(data) is None
    with locked(data.server_lock, "x"):
        assert running_server(data) is None
    for odd in ('["x"]', '{"url": "x", "token_file": 1}', "", "{"):
        data.server_lock.write_text(odd)
        with locked_by_hand(data.server_lock):
            assert running_server(data) is None


def test_a_killed_server_is_not_running(tmp_path: Path) -> None:
    """Its address is still in the lock file, but may be somebody else's by now."""
    data = DataDir(tmp_path)
    with locked(data.server_lock, "x", server=RunningServer("http://127.0.0.1:1")):
        left = data.server_lock.read_text()
    data.server_lock.write_text(left)
    assert running_server(data) is None
    with locked_by_hand(data.server_lock):
        assert running_server(data) is not None
    with locked_by_hand(data.server_lock):
        data.server_lock.chmod(0o666)  # somebody else could have written it
        assert running_server(data) is None
