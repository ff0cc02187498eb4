"""The token of the server, and the codes with which a browser logs in.

The server keeps a token that it made itself in its data directory, where only the user can read it. A code is signed
with the token, so that a terminal command can make one that the server accepts. The token can't be found from a code.
"""

import hashlib
import hmac
import re
import secrets
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path

from turngate import MachineError, NotFoundError, UsageError, files
from turngate_reference.data_dir import DataDir, RunningServer

MIN_TOKEN, MAX_TOKEN = 16, 4096
CODE_MINUTES = 10
_TOKEN = re.compile(rf"[!-~]{{{MIN_TOKEN},{MAX_TOKEN}}}")
_TIME, _RANDOM, _SIGNATURE = 6, 8, 16  # bytes of a code
_MILLISECOND = 1000
_LONGEST_LOGOUTS = 2**20


def read_token(file: Path) -> str:
    """Read a token from a file that the user names; UsageError if it is invalid."""
    try:
        return _checked(file.read_text("ascii"), file)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the token file {file} can't be read: {error}", "give another") from error


def is_exposed(file: Path) -> bool:
    """Whether others can read a file."""
    return bool(file.stat().st_mode & 0o077)


def make_token(data: DataDir) -> str:
    """Return the token in a data directory that the caller has locked; make one if there is none.

    MachineError if the file could be somebody else's, or was readable by others, or can't be written.
    """
    try:
        if not data.token.is_symlink() and not data.token.exists():
            # nobody can have guessed the name and put something in its place
            part = data.token.with_name(f".token.{secrets.token_hex(8)}")
            files.write_atomically(data.token, f"{secrets.token_urlsafe(32)}\n", part=part, durable=True, private=True)
    except OSError as error:
        raise MachineError(f"{data.token} can't be written: {error.strerror}", "use --token-file") from error
    return kept_token(data)


def kept_token(data: DataDir) -> str:
    """Return the token in a data directory; TurngateError if there is none, or others may know it."""
    try:
        return _checked(files.read_own(data.token, MAX_TOKEN + 1, secret=True).decode("ascii"), data.token)
    except FileNotFoundError as error:
        hint = f"{data.command('serve')} makes one; --data-dir names another directory"
        raise NotFoundError(f"{data.root} has no token", hint) from error
    except (OSError, ValueError) as error:
        hint = "delete it: the next turngate serve makes another token"
        raise MachineError(f"the token file {data.token} is not safe to use: {error}", hint) from error


def token_of(data: DataDir, server: RunningServer) -> str | None:
    """Return the token of the server that runs on a data directory; None if it needs none.

    TurngateError if the token can't be read.
    """
    if server.token_file is None:
        return None
    return kept_token(data) if server.token_file == data.token else read_token(server.token_file)


def _checked(content: str, file: Path) -> str:
    token = content.strip()
    if not _TOKEN.fullmatch(token):
        hint = "python -c 'import secrets; print(secrets.token_urlsafe(32))' generates one"
        raise UsageError(f"{file} must contain {MIN_TOKEN} or more visible characters on one line", hint)
    return token


def new_code(token: str) -> str:
    """Return a code that logs one browser in within `CODE_MINUTES`, at the server that has this token."""
    signed = _now().to_bytes(_TIME) + secrets.token_bytes(_RANDOM)
    return urlsafe_b64encode(signed + _signature(token, signed)).decode()


def login_address(url: str, token: str) -> str:
    """Return the address at which a browser logs in once at the server at `url`."""
    return f"{url}/login?code={new_code(token)}"


class LoginCodes:
    """Redeems each code once; safe for threads. Codes from before this was made are void, as they may be used up."""

    def __init__(self, token: str) -> None:
        self._token, self._since = token, _now()
        self._used: dict[bytes, int] = {}
        self._lock = threading.Lock()

    def redeem(self, code: str) -> bool:
        """Whether a code is valid; it is not from now on."""
        try:
            whole = urlsafe_b64decode(code)
        except ValueError:
            return False
        signed, signature = whole[:-_SIGNATURE], whole[-_SIGNATURE:]
        if not hmac.compare_digest(signature, _signature(self._token, signed)):
            return False
        now, issued = _now(), int.from_bytes(signed[:_TIME])
        oldest = now - CODE_MINUTES * 60 * _MILLISECOND
        with self._lock:
            self._used = {used: at for used, at in self._used.items() if at > oldest}
            if signed in self._used or not max(oldest, self._since - 1) < issued:
                return False
            self._used[signed] = issued
        return True


class Logouts:
    """The sessions of browsers that were ended before they expired; safe for threads.

    They are kept in a file (None: nowhere), so that a restart revives none. MachineError if it can't be used.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file, self._lock = file, threading.Lock()
        self._expires = _logouts(file) if file else {}

    def __contains__(self, session: str) -> bool:
        return session in self._expires

    def add(self, session: str, expires: int) -> None:
        """End a session that expires at this time, in seconds since the epoch; OSError: a restart would revive it."""
        with self._lock:
            ended = {**self._expires, session: expires}
            # what has expired needs no entry
            self._expires = {each: until for each, until in ended.items() if until > time.time()}
            if self._file:
                text = "".join(f"{until} {each}\n" for each, until in self._expires.items())
                files.write_atomically(self._file, text, durable=True, private=True)


def _logouts(file: Path) -> dict[str, int]:
    try:
        lines = files.read_own(file, _LONGEST_LOGOUTS, secret=True).decode("ascii").splitlines()
        parts = [line.split(" ") for line in lines]
        return {session: int(expires) for expires, session in parts}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        hint = "restore it; or delete it together with the token, so that no browser stays logged in"
        raise MachineError(f"the list of ended browser sessions {file} can't be used: {error}", hint) from error


def _now() -> int:
    return int(time.time() * _MILLISECOND)


def _signature(token: str, signed: bytes) -> bytes:
    return hmac.new(token.encode(), b"turngate login code " + signed, hashlib.sha256).digest()[:_SIGNATURE]
