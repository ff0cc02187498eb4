"""The folder of installed releases: entries that are whole or not there, found by version, accepted by integrity.

A release is installed beside its place and then renamed, under a file lock, so that a half-installed one is
never found and two installations of the same release do not disturb each other. Whoever runs a release holds it
(`in_use`), and what is held is never evicted.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from turngate.errors import EnvironmentFailed
from turngate.files import locked

MARKER = "turngate-installed"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Installed:
    """A release in the cache. `integrity` is the checksum of the engine's own package, as its registry writes it."""

    engine: str
    version: str
    root: Path
    executable: Path
    integrity: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one release gets into the cache.

    `folder` is its name there; `fill` installs into an empty folder and gives the integrity of what it put there;
    `find` looks for the executable; `promised` is the integrity that it must have, where that is known before;
    `missing` tells what is wrong if there is no executable.
    """

    engine: str
    version: str
    package: str
    registry: str
    folder: str
    fill: Callable[[Path], str]
    find: Callable[[Path], Path | None]
    missing: Callable[[], EnvironmentFailed]
    promised: str | None = None


def home_of(engine: str, cache: Path) -> Path:
    """Return the folder of an engine's releases."""
    return cache.absolute() / "engines" / engine


def place(recipe: Recipe, cache: Path, say: Say) -> Installed:
    """Return the release, installed into `cache` unless it is there in order; EnvironmentFailed if it can't be."""
    home = home_of(recipe.engine, cache)
    home.mkdir(parents=True, exist_ok=True)
    named = f"{recipe.engine} {recipe.version}"
    with alone(home / f".{recipe.folder}.lock", lambda: say(f"{named}: another process is installing it")):
        if found := completed(recipe, home):
            return found
        say(f"{named}: installing from {recipe.registry}")
        return _install(recipe, home)


def completed(recipe: Recipe, home: Path) -> Installed | None:
    """Find a finished installation that has its executable and the integrity that it must have."""
    root = home / recipe.folder
    try:
        package, version, integrity = (root / MARKER).read_text().split()
    except (OSError, ValueError):
        return None
    executable = recipe.find(root)
    expected = (recipe.package, recipe.version, recipe.promised or integrity)
    if not executable or (package, version, integrity) != expected:
        return None
    return Installed(recipe.engine, version, root, executable, integrity)


def _install(recipe: Recipe, home: Path) -> Installed:
    unfinished, root = home / f".{recipe.folder}.partial", home / recipe.folder
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    try:
        integrity = recipe.fill(unfinished)
        if recipe.promised and integrity != recipe.promised:
            what = f"{recipe.package} {recipe.version} is not what {recipe.registry} published"
            raise EnvironmentFailed(what, "do not use it, and tell its maintainers")
        if not recipe.find(unfinished):
            raise recipe.missing()
        (unfinished / MARKER).write_text(f"{recipe.package} {recipe.version} {integrity}\n")
        shutil.rmtree(root, ignore_errors=True)
        unfinished.rename(root)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    executable = recipe.find(root)
    assert executable  # noqa: S101 - it was there before the rename
    return Installed(recipe.engine, recipe.version, root, executable, integrity)


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
