"""The folder of installed releases: what runs a release holds it (`in_use`), and what is held is never evicted."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from turngate.files import locked

MARKER = "turngate-installed"

Say = Callable[[str], None]


def home_of(engine: str, cache: Path) -> Path:
    """Return the folder of an engine's releases."""
    return cache.absolute() / "engines" / engine


@contextmanager
def in_use(root: Path) -> Iterator[None]:
    """Keep the release at `root`, there already or not yet, from being evicted while the block runs."""
    root.parent.mkdir(parents=True, exist_ok=True)
    with locked(_use_lock(root), shared=True):
        try:
            yield
        finally:
            with suppress(OSError):
                # its time is that of the last use
                os.utime(root / MARKER)


@contextmanager
def alone(lock: Path, tell_waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the file lock `lock` while the block runs."""
    with ExitStack() as holding:
        try:
            holding.enter_context(locked(lock, wait=False))
        except BlockingIOError:
            tell_waiting()
            holding.enter_context(locked(lock))
        yield


def evict(root: Path) -> bool:
    """Remove the release at `root`; gives False, and leaves it, if somebody uses or installs it."""
    with ExitStack() as holding:
        try:
            for lock in (_use_lock(root), root.parent / f".{root.name}.lock"):
                holding.enter_context(locked(lock, wait=False))
        except BlockingIOError:
            return False
        # first out of its place, so that nobody ever finds half of it
        going = root.parent / f".{root.name}.partial"
        shutil.rmtree(going, ignore_errors=True)
        with suppress(FileNotFoundError):  # somebody else was quicker
            root.rename(going)
        shutil.rmtree(going, ignore_errors=True)
        return True


def clear(engines: Path) -> None:
    """Remove what killed installations left half done below `engines`, the folder of all engines' releases."""
    for partial in engines.glob("*/.*.partial"):
        with suppress(BlockingIOError), locked(partial.parent / f"{partial.stem}.lock", wait=False):
            shutil.rmtree(partial, ignore_errors=True)


def _use_lock(root: Path) -> Path:
    return root.parent / f".{root.name}.use.lock"
