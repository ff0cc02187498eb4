"""File locations: contracts in the package and in a folder that overrides it, and the cache."""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path


def default_cache() -> Path:
    """Return the cache folder: `TURNGATE_CACHE_DIR`, else the platform's."""
    if chosen := os.environ.get("TURNGATE_CACHE_DIR"):
        return Path(chosen).expanduser()
    from platformdirs import user_cache_path  # noqa: PLC0415 - slow to import, and not needed when the folder is given

    return user_cache_path("turngate", appauthor=False)


@contextmanager
def locked(path: Path, *, shared: bool = False, wait: bool = True) -> Iterator[int]:
    """Hold a lock on a file, made if missing, or on a folder, while the block runs; yields its descriptor.

    The kernel releases the lock when its process ends, however it ends. BlockingIOError if it is held elsewhere and
    `wait` is false; any other OSError if it can't be opened or locked.
    """
    how = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT | os.O_APPEND
    descriptor = os.open(path, how | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        yield descriptor
    finally:
        os.close(descriptor)


def write_atomically(
    path: Path, text: str, *, part: Path | None = None, durable: bool = False, mode: int = 0o666
) -> None:
    """Replace a file atomically; its folder is made if missing; OSError leaves the old content.

    A pipe or a device can't be replaced and is written to. The only writer of the file may name the temporary file,
    `part`: the remains of a killed writer are then overwritten. `durable`: it is on disk before this returns. The umask
    applies to `mode`.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, "utf-8")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    part = part or path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        with open(part, "w", encoding="utf-8", opener=lambda name, how: os.open(name, how, mode)) as file:
            file.write(text)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    if durable:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


_PACKAGED = Path(__file__).parent
_in_use: list[Path] = []


def use_overlay(folder: Path | None) -> None:
    """Make `engines` and `simulations` in a folder override those in the package; None: no longer."""
    _in_use[:] = [folder] if folder else []
    contract_files.cache_clear()


def overlay() -> Path | None:
    """Return the folder that overrides the package."""
    return _in_use[0] if _in_use else None


@cache
def contract_files() -> dict[str, Path]:
    """Return the contract files of all engines."""
    return _files("engines")


def simulation_files() -> dict[str, Path]:
    """Return the files of the engines that can be simulated."""
    return _files("simulations")


def _files(kind: str) -> dict[str, Path]:
    files = {file.stem: file for folder in (_PACKAGED, *_in_use) for file in folder.glob(f"{kind}/*.yaml")}
    return dict(sorted(files.items()))


def name_of(file: Path) -> str:
    """Return how messages name a contract file: a packaged one by its path in the package."""
    return f"{file.parent.name}/{file.name}" if file.parent.parent == _PACKAGED else str(file)
