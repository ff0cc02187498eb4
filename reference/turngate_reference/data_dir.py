"""Run directories, handle records, new handles, and the locks that let only one process at a time use them."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path

from msgspec import Struct

from turngate import MachineError, UsageError, files
from turngate.formats import NewerFormatError, version_of

# no 0, 1, i, l, o, u: handles are read aloud and typed off a screen
ALPHABET = "23456789abcdefghjkmnpqrstvwxyz"
HANDLE_LENGTH = 8
_TRIES = 100
_MARK = ".turngate-data"
# what the mark contains; empty: version 1
_LAYOUT = "turngate.data-dir/1"
BACKUPS = "backups"
_FOLDERS = frozenset(("runs", "handles", BACKUPS))
_FILES = frozenset(
    ("turngate.db", "turngate.db-wal", "turngate.db-shm", "server.lock", "versions.json", "logouts", _MARK)
)
_SECRET = "token"  # never tightened: once others could read it, it is no secret
_LONGEST_LOCK = 2**16
_TELLING = frozenset(("turngate.db", "server.lock", "versions.json", "handles"))


class RunningServer(Struct, frozen=True):
    """A server that runs on a data directory: its URL, and the file with its token if it needs one."""

    url: str
    token_file: Path | None = None


class DataDir(Struct, frozen=True):
    """The folders below one data directory; they are made when something is first written.

    `named` says that the command line named it, so that commands in hints must name it, too.
    """

    root: Path
    named: bool = False

    @property
    def runs(self) -> Path:
        """Run directories."""
        return self.root / "runs"

    @property
    def handles(self) -> Path:
        """Handle records and their locks."""
        return self.root / "handles"

    @property
    def database(self) -> Path:
        """Everything that `turngate serve` keeps of its runs."""
        return self.root / "turngate.db"

    @property
    def server_lock(self) -> Path:
        """The lock that the running server holds."""
        return self.root / "server.lock"

    @property
    def token(self) -> Path:
        """The token that the server made, which its callers must send."""
        return self.root / _SECRET

    @property
    def logouts(self) -> Path:
        """The sessions of browsers that were ended."""
        return self.root / "logouts"

    @property
    def versions(self) -> Path:
        """The release that each executable was last seen to be."""
        return self.root / "versions.json"

    def command(self, words: str, *options: str) -> str:
        """Return a command of turngate that uses this directory and the same contracts, for a hint."""
        folder = ("--data-dir", str(self.root)) if self.named else ()
        return files.command(*words.split(), *folder, *options)

    def make(self) -> None:
        """Make the directory, or use an empty one; everything in it is private to the user.

        UsageError if it holds files that turngate did not create, or a newer turngate changed its layout;
        OSError if it can't be used.
        """
        self.check_layout()
        files.make_private(self.root)
        names = {path.name for path in self.root.iterdir()}
        if _MARK not in names:
            # a directory of an earlier version has no mark, and holds only files of turngate
            if names and not (names <= _FOLDERS | _FILES | {_SECRET} and names & _TELLING):
                what = f"{self.root} is not empty and was not created by turngate"
                raise UsageError(what, "use --data-dir or TURNGATE_DATA_DIR to name an empty or new directory")
            os.close(files.open_private(self.root / _MARK, os.O_WRONLY | os.O_CREAT))
        for name in names & (_FOLDERS | _FILES):
            with suppress(FileNotFoundError):
                _tighten(self.root / name, 0o700 if name in _FOLDERS else 0o600)

    def check_layout(self) -> None:
        """Raise TurngateError if a newer turngate changed how files are placed in the directory."""
        with suppress(OSError):
            found = files.read_regular(self.root / _MARK)[:100].decode("utf-8", "replace").strip()
            try:
                version_of(found or _LAYOUT, _LAYOUT)
            except NewerFormatError as newer:
                what = f"the data directory {self.root} can't be used: {newer}"
                raise UsageError(what, "it is unchanged: use that turngate, or another --data-dir") from newer
            except ValueError as wrong:
                what = f"the data directory {self.root} can't be used: {self.root / _MARK} can't be read: {wrong}"
                raise MachineError(what, "use the turngate that wrote it, or another --data-dir") from wrong

    def record(self, handle: str) -> Path:
        """Return the path of a handle's record."""
        return self.handles / f"{handle}.json"

    def lock(self, handle: str) -> Path:
        """Return the path of a handle's lock file."""
        return self.handles / f"{handle}.lock"

    @contextmanager
    def new_run(self, engine: str) -> Iterator[tuple[str, Path]]:
        """Make a run directory `<timestamp>-<engine>-<handle>`; yield the handle, which is locked, and the directory.

        The timestamp is UTC and sorts. The handle is unique, since its lock file is kept with it. Raises
        MachineError if nothing can be written.
        """
        with ExitStack() as holding:
            yield self._new_run(engine, holding)

    def _new_run(self, engine: str, holding: ExitStack) -> tuple[str, Path]:
        timestamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        try:
            self.make()
            files.make_private(self.handles)
            files.make_private(self.runs)
            for _ in range(_TRIES):
                handle = new_handle()
                directory = self.runs / f"{timestamp}-{engine}-{handle}"
                with suppress(FileExistsError):
                    os.close(files.open_private(self.lock(handle), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
                    if not self.record(handle).exists():
                        holding.enter_context(locked(self.lock(handle), handle))
                        files.make_new_private(directory)
                        return handle, directory
        except OSError as error:
            hint = "use another directory: --data-dir or TURNGATE_DATA_DIR"
            raise MachineError(f"{self.root} can't be written: {error.strerror}", hint) from error
        raise MachineError(
            "no unused handle was available", f"remove old ones: {self.command('handles')} prune --older-than 30d"
        )


def new_handle() -> str:
    """Return a random handle."""
    number = int.from_bytes(os.urandom(16))  # importing secrets takes longer than all else that makes a run directory
    return "".join(ALPHABET[number // len(ALPHABET) ** place % len(ALPHABET)] for place in range(HANDLE_LENGTH))


def data_dir(asked: Path | None) -> DataDir:
    """Return the data directory: the given one, else `TURNGATE_DATA_DIR`, else the platform's.

    MachineError: its path leads nowhere.
    """
    chosen = asked or os.environ.get("TURNGATE_DATA_DIR")
    try:
        folder = Path(chosen).expanduser() if chosen else files.default_data()
        # by its real path, since the directories in records are compared with real paths
        return DataDir(files.real_path(folder), named=bool(asked))
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no such home
        what = f"the data directory {chosen or ''} can't be used: {getattr(error, 'strerror', None) or error}"
        raise MachineError(what, "choose another one with --data-dir") from error


@contextmanager
def locked(path: Path, handle: str, *, also: Path | None = None, server: RunningServer | None = None) -> Iterator[None]:
    """Hold the lock file of a handle, and another place, while the block runs; MachineError: they can't be held.

    The file's content only names the holder of the lock and how to reach it, if it is a server.
    """
    with ExitStack() as holding:
        try:
            if also:
                holding.enter_context(files.locked(also, wait=False))
            file = holding.enter_context(files.locked(path, wait=False, private=True))
            os.truncate(file, 0)
        except BlockingIOError:
            hint = "use that server, stop it, or choose another --data-dir" if also else "wait until it ends"
            raise MachineError(f"{handle} is in use by {_holder(path)}", hint) from None
        except OSError as error:
            raise MachineError(f"{path} can't be locked: {error.strerror}", "use a local --data-dir") from error
        holder = {"pid": os.getpid(), "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        reached = {"url": server.url, "token_file": server.token_file and str(server.token_file)} if server else {}
        with nullcontext() if server else suppress(OSError):  # `handles prune` makes room on a full disk
            os.write(file, json.dumps(holder | reached).encode())
        try:
            yield
        finally:
            os.truncate(file, 0)


def running_server(data: DataDir) -> RunningServer | None:
    """Return the server that runs on a data directory; None if none is running, also if one was killed."""
    try:
        reported = json.loads(files.read_own(data.server_lock, _LONGEST_LOCK))
        server = RunningServer(str(reported["url"]), Path(reported["token_file"]) if reported["token_file"] else None)
        # a killed server leaves its URL, where somebody else may wait for our token by now
        with files.locked(data.server_lock, shared=True, wait=False):
            return None
    except BlockingIOError:
        return server
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _tighten(path: Path, mode: int) -> None:
    if not path.is_symlink() and path.stat().st_mode & 0o777 & ~mode:
        path.chmod(mode)


def _holder(path: Path) -> str:
    try:
        holder = json.loads(files.read_regular(path))
        return f"process {int(holder['pid'])}, since {str(holder['since'])[:30]}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
