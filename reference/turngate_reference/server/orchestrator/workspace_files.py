"""The files in the directory of a run: what a turn changed there, and their content.

The directory belongs to an engine, so everything in it is hostile. It is only listed and read, within limits, each step
by a descriptor of the directory above, and links are never followed: neither can lead to a file outside. A snapshot
before a turn is compared with the directory after it. What changes between turns, by the user or anybody else, isn't
the run's. No git is asked: its configuration, which may start programs, lies in the directory too.
"""

import difflib
import errno
import os
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice, takewhile
from pathlib import Path, PurePosixPath
from stat import S_ISDIR, S_ISREG

from msgspec import Struct, field

from turngate.strict_json import is_text
from turngate_reference.server.store.files import FileChange, TurnChanges
from turngate_reference.server.store.runs import Run

MAX_ENTRIES = 20_000  # files and directories of a snapshot
MAX_SECONDS = 2.0  # of a snapshot
MAX_DEPTH = 32
MAX_TEXT = 128 * 2**10  # bytes of a file that is kept and compared as text
MAX_TEXTS = 8 * 2**20  # bytes of the texts of a snapshot
MAX_DOWNLOAD = 64 * 2**20
MAX_COMPARED = 10**6  # pairs of lines
_SKIPPED = frozenset({".git"})
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_TOO_MANY = f"there are more than {MAX_ENTRIES} files, or it took more than {MAX_SECONDS:.0f} s to look at them"
Stamp = tuple[int, int, int, int]


class Snapshot(Struct, frozen=True):
    """The files of a directory by their relative paths, with the texts of small ones; `gap` says why some may lack."""

    stamps: dict[str, Stamp] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)
    gap: str | None = None


def snapshot(run: Run, *, with_texts: bool) -> Snapshot:
    """Look at the directory of a run, which may be missing. Whatever goes wrong becomes the gap."""
    walk = _Walk(run, with_texts=with_texts)
    try:
        with suppress(FileNotFoundError), _root(run) as root:
            walk.go(root)
    except OSError as error:
        walk.gap = f"the directory can't be read: {error.strerror}"
    return Snapshot(walk.stamps, walk.texts, walk.gap)


def changes(run: Run, before: Snapshot) -> TurnChanges:
    """Compare the directory of a run with a snapshot of it, which was taken with texts."""
    after = snapshot(run, with_texts=False)
    gap = before.gap or after.gap
    files = (
        []
        if before.gap
        else [FileChange(p, "added", after.stamps[p][0]) for p in after.stamps if p not in before.stamps]
    )
    if not after.gap:
        gone = (path for path in before.stamps if path not in after.stamps)
        files += [FileChange(path, "deleted", 0, before.texts.get(path)) for path in gone]
    for path, stamp in after.stamps.items():
        if before.stamps.get(path, stamp) != stamp:
            old = before.texts.get(path)
            if old is None or old != _text_now(run, path):
                files.append(FileChange(path, "modified", stamp[0], old))
    return TurnChanges(sorted(files, key=lambda file: file.path), gap)


def is_artifact(run: Run, path: str) -> bool:
    """Whether a changed file is among the run's artifacts."""
    return PurePosixPath(path).is_relative_to(run.artifacts.relative_to(run.cwd).as_posix())


@contextmanager
def opened(run: Run, path: str) -> Iterator[tuple[int, int]]:
    """Open a regular file of a run for reading; return its descriptor and its size.

    OSError if there is none, or if a link leads to it.
    """
    *above, name = PurePosixPath(path).parts or ("",)
    if path.startswith("/") or ".." in above or name in ("", ".."):
        raise OSError(errno.ENOENT, "it isn't inside the directory of the run", path)
    with _root(run) as root, _below(root, above) as folder:
        descriptor = os.open(name, _FILE, dir_fd=folder)
    try:
        state = os.fstat(descriptor)
        if not S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "it isn't a regular file", path)
        yield descriptor, state.st_size
    finally:
        os.close(descriptor)


def text(data: bytes | None) -> str | None:
    """Return the text of a small file; None if it is large, or no UTF-8 text."""
    if data is None or len(data) > MAX_TEXT or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def read(run: Run, path: str, limit: int) -> bytes:
    """Read a file of a run, or its first `limit` bytes; OSError as for `opened`."""
    with opened(run, path) as (descriptor, _):
        return _read(descriptor, limit)


def patch(before: str, after: str) -> list[str]:
    """Return the lines of a unified diff, without its head; if too many lines differ, all of them are replaced."""
    old, new = (value.removesuffix("\n").split("\n") if value else [] for value in (before, after))
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False)))
    if (len(old) - same) * (len(new) - same) > MAX_COMPARED:
        place = f"@@ -1,{len(old)} +1,{len(new)} @@"
        return [place, *(f"-{line}" for line in old), *(f"+{line}" for line in new)]
    return list(difflib.unified_diff(old, new, lineterm=""))[2:]


class _Walk:
    """A walk through the directory of a run, upper levels first, until a limit is reached; `gap` as in `Snapshot`."""

    def __init__(self, run: Run, *, with_texts: bool) -> None:
        self.stamps: dict[str, Stamp] = {}
        self.texts: dict[str, bytes] = {}
        self.gap: str | None = None
        self._artifacts = run.artifacts.relative_to(run.cwd).parts
        # whatever else there is, the artifacts are looked at
        self._waiting: deque[tuple[str, ...]] = deque([self._artifacts, ()])
        self._left, self._room = MAX_ENTRIES, MAX_TEXTS if with_texts else -1
        self._deadline = time.monotonic() + MAX_SECONDS

    def go(self, root: int) -> None:
        """Walk through an open directory."""
        while self._waiting:
            parts = self._waiting.popleft()
            with self._tolerant(), _below(root, parts) as folder:
                with os.scandir(folder) as found:
                    names = [entry.name for entry in islice(found, self._left + 1)]
                for name in sorted(names, key=os.fsencode):
                    self._left -= 1
                    if self._left < 0 or time.monotonic() > self._deadline:
                        self.gap = _TOO_MANY
                        return
                    with self._tolerant():
                        self._take(folder, (*parts, name))

    def _take(self, folder: int, parts: tuple[str, ...]) -> None:
        name, path = parts[-1], "/".join(parts)
        state = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if S_ISDIR(state.st_mode):
            if len(parts) > MAX_DEPTH:
                self.gap = f"directories more than {MAX_DEPTH} levels deep are not looked at"
            elif parts != self._artifacts and name not in _SKIPPED:
                self._waiting.append(parts)
        elif not S_ISREG(state.st_mode):
            return
        elif not is_text(path):
            self.gap = "files whose names aren't UTF-8 are not looked at"
        else:
            self.stamps[path] = (state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)
            if state.st_size <= min(self._room, MAX_TEXT):
                content = _content(name, folder)
                self._room -= len(content)
                if text(content) is not None:
                    self.texts[path] = content

    @contextmanager
    def _tolerant(self) -> Iterator[None]:
        """Go on after what can't be read; what is gone or became a link meanwhile is nothing to look at."""
        try:
            yield
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR):
                self.gap = f"some files can't be looked at: {error.strerror}"


def _content(name: str, folder: int) -> bytes:
    descriptor = os.open(name, _FILE, dir_fd=folder)
    try:
        is_regular = S_ISREG(os.fstat(descriptor).st_mode)
        return _read(descriptor, MAX_TEXT + 1) if is_regular else b""
    finally:
        os.close(descriptor)


def _read(descriptor: int, limit: int) -> bytes:
    pieces: list[bytes] = []
    while limit > 0 and (piece := os.read(descriptor, min(limit, 2**20))):
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)


def _text_now(run: Run, path: str) -> bytes | None:
    try:
        return read(run, path, MAX_TEXT + 1)
    except OSError:
        return None


@contextmanager
def _root(run: Run) -> Iterator[int]:
    """Open the directory of a run; its path was resolved when the run was created, so no part of it may be a link."""
    if run.workspace is None:
        top, parts = run.run_directory, run.cwd.relative_to(run.run_directory).parts
    else:
        top, parts = Path(run.cwd.anchor), run.cwd.parts[1:]
    descriptor = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with _below(descriptor, parts) as root:
            yield root
    finally:
        os.close(descriptor)


@contextmanager
def _below(folder: int, parts: tuple[str, ...] | list[str]) -> Iterator[int]:
    """Open a directory below an open one, one step at a time."""
    descriptor = os.dup(folder)
    try:
        for part in parts:
            lower = os.open(part, _DIRECTORY, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = lower
        yield descriptor
    finally:
        os.close(descriptor)
