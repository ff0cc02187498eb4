"""Tests of the server's token and of the codes with which a browser logs in."""

import os
import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.reference.caller import TOKEN
from tests.tables import each
from turngate import files
from turngate.errors import MachineError, NotFoundError, TurngateError, UsageError
from turngate_reference import access
from turngate_reference.access import (
    CODE_MINUTES,
    LoginCodes,
    Logouts,
    is_exposed,
    kept_token,
    make_token,
    new_code,
    read_token,
    token_of,
)
from turngate_reference.data_dir import DataDir, RunningServer


@pytest.fixture(name="data")
def _data(tmp_path: Path) -> DataDir:
    """Make a data directory."""
    data = DataDir(tmp_path / "data")
    data.make()
    return data


def test_a_token_is_made_once_for_its_user_alone(data: DataDir) -> None:
    """It has mode 0600 whatever the umask, stays the same, and nothing else is left in the directory."""
    old = os.umask(0)
    try:
        token = make_token(data)
    finally:
        os.umask(old)
    assert re.fullmatch(r"[\w-]{43}", token)
    assert (data.token.stat().st_mode & 0o777, data.root.stat().st_mode & 0o777) == (0o600, 0o700)
    assert make_token(data) == kept_token(data) == token
    assert {path.name for path in data.root.iterdir()} == {".turngate-data", "token"}
    other = DataDir(data.root.with_name("other"))
    other.make()
    assert make_token(other) != token


def test_a_token_appears_whole(data: DataDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """If writing fails, there is no file, not even a part of one."""

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MachineError, match="can't be written: No space"):
        make_token(data)
    assert [path.name for path in data.root.iterdir()] == [".turngate-data"]


@pytest.mark.parametrize("kind", ["link", "dangling", "folder", "pipe", "readable", "writable", "short", "two words"])
def test_a_token_that_others_may_know_is_refused(data: DataDir, kind: str) -> None:
    """A link, anything but a file, a file that others can read or write, and a poor token end in an error."""
    elsewhere = data.root.with_name("elsewhere")
    file = data.token
    match kind:
        case "link":
            elsewhere.write_text(TOKEN)
            elsewhere.chmod(0o600)
            file.symlink_to(elsewhere)
        case "dangling":
            file.symlink_to(elsewhere)
        case "folder":
            file.mkdir()
        case "pipe":
            os.mkfifo(file, 0o600)
        case _:
            file.write_text({"short": "short", "two words": f"{TOKEN} {TOKEN}"}.get(kind, TOKEN))
            file.chmod({"readable": 0o640, "writable": 0o602}.get(kind, 0o600))
    for use in (make_token, kept_token):
        with pytest.raises(TurngateError, match=re.escape(str(file))):
            use(data)
    assert kind != "dangling" or not elsewhere.exists()


def test_a_directory_without_a_token_says_who_makes_one(data: DataDir) -> None:
    """The hint names the command."""
    with pytest.raises(NotFoundError, match="has no token") as refused:
        kept_token(data)
    assert "turngate serve makes one" in refused.value.hint


def test_a_chosen_token_is_read_from_its_file(data: DataDir) -> None:
    """White space around the token is ignored; whether others can read the file is known."""
    file = data.root.with_name("chosen")
    file.write_text(f"{TOKEN}\n")
    file.chmod(0o600)
    assert (read_token(file), is_exposed(file)) == (TOKEN, False)
    file.chmod(0o640)
    assert is_exposed(file)
    own = make_token(data)
    tokens = {None: None, file: TOKEN, data.token: own}
    assert {name: token_of(data, RunningServer("http://x", name)) for name in tokens} == tokens


@each("content", [b"", b"\n", b"short", b"x" * 15, b"two words of a length\n", b"\xc3\xa9" * 20])
def test_a_poor_token_is_refused(tmp_path: Path, content: bytes) -> None:
    """An empty, short or malformed token is rejected."""
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(UsageError, match=re.escape(str(file))):
        read_token(file)


def test_a_code_works_once() -> None:
    """Of many uses at the same time one is accepted, and none later."""
    codes, code = LoginCodes(TOKEN), new_code(TOKEN)
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(codes.redeem, [code] * 50)) == 1
    assert not codes.redeem(code)
    assert codes.redeem(new_code(TOKEN))


def test_a_code_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is void after its time, and when the server was started after it; used ones are forgotten then."""
    now = time.time()
    codes, code, late = LoginCodes(TOKEN), new_code(TOKEN), new_code(TOKEN)
    monkeypatch.setattr(time, "time", lambda: now + CODE_MINUTES * 60 - 1)
    assert codes.redeem(code)
    assert not LoginCodes(TOKEN).redeem(late)
    monkeypatch.setattr(time, "time", lambda: now + CODE_MINUTES * 60 + 1)
    assert not codes.redeem(late)
    assert codes.redeem(new_code(TOKEN))
    assert len(vars(codes)["_used"]) == 1


def test_nobody_makes_a_code_without_the_token() -> None:
    """A code of another token, a changed one, and any other text are refused; a code doesn't hold the token."""
    codes, code = LoginCodes(TOKEN), new_code(TOKEN)
    changed = [code[:at] + ("A" if code[at] != "A" else "B") + code[at + 1 :] for at in range(len(code))]
    for forged in (new_code(f"{TOKEN}x"), *changed, "", "x", "\u00e9", "=" * 40, "A" * 40, "A" * 10_000, code[:-4]):
        assert not codes.redeem(forged)
    assert TOKEN not in code
    assert codes.redeem(code)
    assert len(f"{access.login_address('http://127.0.0.1:65535', TOKEN)}") < 80


def test_sessions_that_were_ended_are_kept_until_they_expire(data: DataDir) -> None:
    """Another server knows them too, and those that have expired are forgotten."""
    ended, now = Logouts(data.logouts), int(time.time())
    ended.add("over", now - 1)
    ended.add("open", now + 60)
    again = Logouts(data.logouts)
    assert ("open" in again, "over" in again, "other" in again) == (True, False, False)
    assert data.logouts.read_text() == f"{now + 60} open\n"


@each("content", ["damaged\n", "1 a b\n", "\xff", "9" * 2**20 + " a\n"])
def test_a_damaged_list_of_ended_sessions_revives_none(data: DataDir, content: str) -> None:
    """A server doesn't start with a list that it can't read."""
    files.write_atomically(data.logouts, content, private=True)
    with pytest.raises(MachineError, match="the list of ended browser sessions"):
        Logouts(data.logouts)
