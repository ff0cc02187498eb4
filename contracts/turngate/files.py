"""File locations (packaged contracts, the folder that overrides them, the cache), and how to read and write files."""

import errno
import fcntl
import os
import resource
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from stat import S_IRWXG, S_IRWXO, S_ISLNK, S_ISREG, S_IWGRP, S_IWOTH

FEW_FILES = 64
_LONGEST_PATH = 4096  # bytes; Linux opens none that is longer
_STREAMS = 3  # standard input, output and error
_PACKAGED = Path(__file__).parent
_in_use: list[Path] = []
_left_out: list[Path] = []


def allows_few_files() -> bool:
    """Whether this process may have so few open files that commands which start processes can fail for that."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return limit != resource.RLIM_INFINITY and limit < FEW_FILES


def open_streams() -> None:
    """Open the standard streams that the caller has closed, so that no file of ours takes the place of one."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < _STREAMS:
        pass
    os.close(descriptor)
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - it stays open


def default_cache() -> Path:
    """Return the cache folder: `TURNGATE_CACHE_DIR`, else the platform's."""
    if chosen := os.environ.get("TURNGATE_CACHE_DIR"):
        return Path(chosen).expanduser()
    return user_folder("XDG_CACHE_HOME", ".cache") or _platform_folder("user_cache_path")


def default_data() -> Path:
    """Return the platform's folder for the user's data."""
    return user_folder("XDG_DATA_HOME", ".local/share") or _platform_folder("user_data_path")


def default_config() -> Path:
    """Return the platform's folder for the user's configuration."""
    return user_folder("XDG_CONFIG_HOME", ".config") or _platform_folder("user_config_path")


def user_folder(variable: str, below_home: str) -> Path | None:
    """Return a folder by the rules of XDG; None where others hold, as on macOS, or without an absolute HOME."""
    if sys.platform != "linux" or "ANDROID_DATA" in os.environ:
        return None
    if (chosen := os.environ.get(variable, "")).startswith("/"):
        return Path(chosen, "turngate")
    home = os.environ.get("HOME", "")
    return Path(home, below_home, "turngate") if home.startswith("/") else None


def _platform_folder(name: str) -> Path:
    import platformdirs  # noqa: PLC0415 - takes a fifth of the time that `turngate start` needs

    folder: Path = getattr(platformdirs, name)("turngate", appauthor=False)
    return folder


def open_private(path: str | Path, flags: int) -> int:
    """Open a file with mode 0600, regardless of its old mode and the umask; usable as the `opener` of `open`."""
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(path: Path, limit: int = -1) -> bytes:
    """Read a regular file, or its first `limit` bytes; OSError if it is no such file, since a pipe could block."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
        if not S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it isn't a regular file", str(path))
        return file.read(limit)


def repository_of(folder: Path) -> Path | None:
    """Return the nearest folder at or above one that holds a Git repository; None: it is in none."""
    # lexists is false where Path.exists raises
    return next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)


def real_path(path: Path) -> Path:
    """Return a path with every link followed, absolute; what follows the part that exists is kept.

    OSError if nobody can open it, because it is too long, or of a link that leads to itself or a folder that can't be
    searched. Whether `Path.resolve` notices that depends on the version of Python.
    """
    # the time and the memory that a path takes grow with the square of its length
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), str(path))
    real = Path(os.path.realpath(path))
    with suppress(FileNotFoundError, NotADirectoryError):
        for part in (*reversed(real.parents), real):
            if S_ISLNK(part.lstat().st_mode):
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return real


def read_own(path: Path, limit: int, *, secret: bool = False) -> bytes:
    """Read a regular file that nobody else can have written; ValueError if it is another, or longer than `limit`.

    A `secret` one must not be readable by anybody else either. OSError if it is a symbolic link or can't be read.
    """
    # a pipe in its place must not block the reader
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
        stat = os.fstat(file.fileno())
        if not S_ISREG(stat.st_mode) or stat.st_uid != os.geteuid() or stat.st_mode & (S_IWGRP | S_IWOTH):
            raise ValueError(f"somebody else could have written {path}")
        if secret and stat.st_mode & (S_IRWXG | S_IRWXO):
            raise ValueError(f"somebody else could have read {path}")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"{path} is longer than {limit} bytes")
    return data


def state_of(folder: Path, suffix: str) -> str:
    """Return a text that changes when a file with that suffix in a folder is replaced or modified."""
    with os.scandir(folder) as entries:
        files = sorted((entry.name, entry.stat()) for entry in entries if entry.name.endswith(suffix))
    return f"{folder} " + " ".join(f"{name} {stat.st_size} {stat.st_mtime_ns}" for name, stat in files)


def make_private(folder: Path) -> None:
    """Create a folder and its missing parents with mode 0700, regardless of the umask."""
    for missing in reversed([path for path in (folder, *folder.parents) if not path.exists()]):
        with suppress(FileExistsError):
            make_new_private(missing)


def make_new_private(folder: Path) -> None:
    """Create a folder with mode 0700, regardless of the umask; FileExistsError if it exists."""
    folder.mkdir(0o700)
    folder.chmod(0o700)


@contextmanager
def locked(path: Path, *, shared: bool = False, wait: bool = True, private: bool = False) -> Iterator[int]:
    """Hold a lock on a folder, or on a file (created if missing), while the block runs; yield its descriptor.

    The kernel releases the lock when the process ends, even after a crash. A `private` file gets mode 0600.
    BlockingIOError if it is held elsewhere and `wait` is false; any other OSError if it can't be opened or locked.
    """
    if path.is_dir():
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    else:
        how = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = open_private(path, how) if private else os.open(path, how, 0o666)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        yield descriptor
    finally:
        os.close(descriptor)


def write_atomically(
    path: Path, text: str, *, part: Path | None = None, durable: bool = False, private: bool = False
) -> None:
    """Replace a file atomically, and create its folder if missing. After an OSError the old content is intact.

    A pipe or a device can't be replaced, so this writes to it directly. A sole writer of the file may name the
    temporary file `part`, which overwrites the remains of a killed writer. `durable`: the content is on disk on return.
    `private`: the file has mode 0600, and new folders have 0700.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, "utf-8")
        return
    if private:
        make_private(path.parent)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
    part = part or path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        with open(part, "w", encoding="utf-8", opener=open_private if private else None) as file:
            file.write(text)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    if durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Write the names of a folder's files to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def keep_newest(folder: Path, count: int) -> None:
    """Delete all files of a folder but the `count` written last, also while other processes write and delete some.

    A file that a killed writer left is deleted as any other. OSError if the folder can't be read or changed.
    """
    written: list[tuple[int, str]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if entry.is_file(follow_symlinks=False):
                    written.append((entry.stat().st_mtime_ns, entry.path))
    for _, path in sorted(written)[:-count]:
        Path(path).unlink(missing_ok=True)


def use_overlay(folder: Path | None, without: Iterable[Path] = ()) -> None:
    """Make `engines` and `simulations` in a folder override those in the package; None ends the override.

    Its path becomes absolute, since this program and those that it starts may work in other directories. The engines of
    the files `without` are left out, those of the package too.
    """
    _in_use[:] = [folder.absolute()] if folder else []
    _left_out[:] = [file.absolute() for file in without]
    contract_files.cache_clear()


def overlay() -> Path | None:
    """Return the absolute path of the folder that overrides the package."""
    return _in_use[0] if _in_use else None


def overlay_options() -> tuple[str, ...]:
    """Return the options with which another `turngate` uses the same contracts."""
    return ("--contracts", str(folder)) if (folder := overlay()) else ()


def command(*words: str) -> str:
    """Return a command of turngate with the same contracts, for a hint: a user can paste it."""
    tokens = ("turngate", *overlay_options(), *words)
    if all(map(str.isalnum, tokens)):
        return " ".join(tokens)
    from shlex import join  # noqa: PLC0415 - slow, and each start of a turn makes a plain hint

    return join(tokens)


@cache
def contract_files() -> dict[str, Path]:
    """Return the contract files of all engines that can be used."""
    return _files("engines")


def is_own(engine: str) -> bool:
    """Whether the contract in use of an engine is the user's, of which the bundled history says nothing."""
    own = overlay()
    return own is not None and own.resolve() in contract_files()[engine].resolve().parents


def simulation_files() -> dict[str, Path]:
    """Return the simulation files of all engines that have one that can be used."""
    return _files("simulations")


def left_out(kind: str = "engines") -> dict[str, Path]:
    """Return the contract (or simulation) files of the engines that are left out, by engine."""
    return {file.stem: file for file in _left_out if file.parent.name == kind}


def _files(kind: str) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for folder in (overridden / kind for overridden in (_PACKAGED, *_in_use)):
        with suppress(OSError):
            names = os.listdir(folder)  # noqa: PTH208 - a tenth of the time that Path.glob takes
            files |= {name.removesuffix(".yaml"): folder / name for name in names if name.endswith(".yaml")}
    return {name: files[name] for name in sorted(files.keys() - left_out(kind))}


def is_packaged(file: Path) -> bool:
    """Whether a contract file is part of the package."""
    return file.parent.parent == _PACKAGED


def name_of(file: Path) -> str:
    """Return how messages name a contract file: a packaged one by its path in the package."""
    return f"{file.parent.name}/{file.name}" if is_packaged(file) else str(file)
