"""The folder of installed releases and its size limit: the least recently used releases are evicted, unless in use."""

import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from turngate import MachineError, Stop, UsageError
from turngate.files import locked

MARKER = "turngate-installed"
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
GUESS = 900 * 10**6  # bytes of an engine's first release; the largest today take 400 MB
WITH_ARCHIVE = 1.5  # the peak of an installation compared to its result: archives are stored next to their content
LEAST_FREE = 512 * 10**6
PATIENCE = 0.5
MAKE_ROOM = "free disk space, or set TURNGATE_CACHE_DIR to a folder on another disk"
INSTALLING = 2

Say = Callable[[str], None]


def home_of(engine: str, cache: Path) -> Path:
    """Return the folder of an engine's releases."""
    return cache.absolute() / "engines" / engine


@contextmanager
def in_use(root: Path) -> Iterator[None]:
    """Protect the release at `root`, which may not exist yet, from eviction while the block runs."""
    root.parent.mkdir(parents=True, exist_ok=True)
    with locked(_use_lock(root), shared=True):
        try:
            yield
        finally:
            with suppress(OSError):
                # its time is that of the last use
                os.utime(root / MARKER)


@contextmanager
def alone(lock: Path, tell_waiting: Callable[[], None], stop: Stop | None = None) -> Iterator[None]:
    """Hold the file lock `lock` while the block runs; MachineError if `stop` comes before it is free."""
    with ExitStack() as holding:
        if not _entered(holding, lock):
            tell_waiting()
            while not _entered(holding, lock):
                if (stop or Stop()).wait(PATIENCE):
                    raise MachineError("the installation was interrupted", "run it again")
        yield


def _entered(holding: ExitStack, lock: Path) -> bool:
    with suppress(BlockingIOError):
        holding.enter_context(locked(lock, wait=False))
        return True
    return False


def evict(root: Path) -> bool:
    """Remove the release at `root`; return False, and leave it, if a process uses or installs it."""
    with ExitStack() as holding:
        try:
            for lock in (_use_lock(root), root.parent / f".{root.name}.lock"):
                holding.enter_context(locked(lock, wait=False))
        except BlockingIOError:
            return False
        # moved away first, so that no process finds half of it
        going = root.parent / f".{root.name}.partial"
        shutil.rmtree(going, ignore_errors=True)
        with suppress(FileNotFoundError):  # another process was quicker
            root.rename(going)
        shutil.rmtree(going, ignore_errors=True)
        return True


def clear(engines: Path) -> None:
    """Remove incomplete installations, left by killed processes, below `engines`, the folder of all releases."""
    for partial in engines.glob("*/.*.partial"):
        with suppress(BlockingIOError), locked(partial.parent / f"{partial.stem}.lock", wait=False):
            shutil.rmtree(partial, ignore_errors=True)


def _use_lock(root: Path) -> Path:
    return root.parent / f".{root.name}.use.lock"


def parse_size(text: str) -> int:
    """Return a size such as `500M`, `2GB` or `1.5g` in bytes; UsageError if it is invalid."""
    size = re.fullmatch(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[KMGT]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not size or not float(size["number"]):
        raise UsageError(f"{text!r} is not a size; write 500M or 10G", "see --cache-limit")
    return int(float(size["number"]) * UNITS[size["unit"].upper()])


def bytes_below(folder: Path) -> int:
    """Return the disk usage of a folder, without following links; files that vanish meanwhile count as 0."""
    total, seen = 0, set[tuple[int, int]]()
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                stat = os.lstat(os.path.join(parent, name))  # noqa: PTH118 - run for each file of each release
            except OSError:
                continue
            if (stat.st_dev, stat.st_ino) not in seen:
                seen.add((stat.st_dev, stat.st_ino))
                total += stat.st_blocks * 512
    return total


class CacheLimit:
    """The size of the releases below `cache`, kept within `limit` bytes. Safe for threads."""

    def __init__(self, cache: Path, limit: int, wait: Callable[[float], None]) -> None:
        """Remove the remains of killed installations; `wait` waits some seconds, or raises when interrupted."""
        self.limit, self._home, self._wait = limit, cache.absolute() / "engines", wait
        self._lock, self._sizes, self._reserved = threading.Lock(), dict[Path, int](), 0
        self._mine: list[Path] = []
        self._installing = threading.Semaphore(INSTALLING)
        clear(self._home)

    @contextmanager
    def reserved(self, root: Path, say: Say) -> Iterator[None]:
        """Make room for a release that the block installs at `root`, when few others are being installed.

        Waits while this process uses others; MachineError if there can't be room, or the disk is full.
        """
        with self._installing:
            while not (guess := self._reserve(root.parent)):
                say(f"waiting for room in the cache ({self.limit / 1e9:.1f} GB)")
                self._wait(PATIENCE)
            try:
                yield
            finally:
                with self._lock:
                    self._reserved -= guess

    @contextmanager
    def held(self, root: Path) -> Iterator[None]:
        """Mark the release at `root` as in use by this process while the block runs.

        MachineError if the disk is too full for an engine to run.
        """
        self._home.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(self._home).free < LEAST_FREE:
            raise _disk_full()
        with self._lock:
            self._mine.append(root)
        try:
            yield
        finally:
            with self._lock:
                self._mine.remove(root)

    def used(self) -> int:
        """Return the bytes of all releases, half-installed ones included."""
        with self._lock:
            unfinished = sum(map(bytes_below, self._home.glob("*/.*.partial")))
            return unfinished + sum(self._measured().values())

    def _reserve(self, home: Path) -> int:
        """Reserve space for another release of this engine, and return its size; 0 if there is no room yet."""
        with self._lock:
            self._home.mkdir(parents=True, exist_ok=True)
            sizes = self._measured()
            known = [size for root, size in sizes.items() if root.parent == home]
            guess = min(self.limit, int(max(known) * WITH_ARCHIVE) if known else GUESS)
            free = shutil.disk_usage(self._home).free - LEAST_FREE
            # never more than the disk has, whatever the limit
            limit = min(self.limit, sum(sizes.values()) + self._reserved + free)
            self._evict(sizes, limit - self._reserved - guess)
            if sum(sizes.values()) + self._reserved + guess <= limit:
                self._reserved += guess
                return guess
            if not self._reserved and not any(root in sizes for root in self._mine):
                raise self._no_room(guess, limit)
            return 0

    def trim(self) -> None:
        """Evict unused releases beyond the limit."""
        with self._lock:
            self._evict(self._measured(), self.limit)

    def _evict(self, sizes: dict[Path, int], most: int) -> None:
        """Evict the least recently used of `sizes`, and remove them from it, until the rest fits."""

        def last_use(root: Path) -> float:
            with suppress(OSError):
                return (root / MARKER).stat().st_mtime
            return 0.0

        for root in sorted(sizes, key=last_use):
            if sum(sizes.values()) <= most:
                break
            if root not in self._mine and evict(root):
                del sizes[root]

    def _no_room(self, guess: int, limit: int) -> MachineError:
        if limit < self.limit:
            return _disk_full()
        what = f"a release may take {guess / 1e6:.0f} MB, but the cache is limited to {self.limit / 1e6:.0f} MB"
        return MachineError(what, "raise --cache-limit, or end other processes that use cached releases")

    def _measured(self) -> dict[Path, int]:
        there = {marker.parent for marker in self._home.glob(f"*/*/{MARKER}")}
        self._sizes = {root: self._sizes.get(root) or bytes_below(root) for root in there}
        return dict(self._sizes)


def _disk_full() -> MachineError:
    return MachineError("the disk is full, or nearly so", MAKE_ROOM)
