"""A git repository in a workspace, made without git, and what is written in it."""

import hashlib
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from turngate_probes.stub_model import Exchange

GIT = ".git"
_README = b"A project.\n"
_BY = b"turngate <turngate@localhost> 1000000000 +0000"
_FILES = {
    "HEAD": b"ref: refs/heads/main\n",
    "config": b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n",
}
# what git itself keeps there, without the index, which it renews when it is asked for the state of the files
_FOLDERS_OF_GIT = ("branches", "hooks", "info", "logs", "modules", "objects", "refs", "worktrees")
_FILES_OF_GIT = ("config", "FETCH_HEAD", "HEAD", "ORIG_HEAD", "packed-refs")
OF_GIT = (*_FOLDERS_OF_GIT, *_FILES_OF_GIT)


def make_repository(folder: Path) -> None:
    """Make a repository with one commit, on the branch main."""
    (folder / "README.md").write_bytes(_README)
    git = folder / GIT
    (git / "refs" / "heads").mkdir(parents=True)
    for name, content in _FILES.items():
        (git / name).write_bytes(content)
    tree = _keep(git, b"tree", b"100644 README.md\0" + bytes.fromhex(_keep(git, b"blob", _README)))
    commit = b"tree %s\nauthor %s\ncommitter %s\n\nBegin\n" % (tree.encode(), _BY, _BY)
    (git / "refs" / "heads" / "main").write_text(_keep(git, b"commit", commit) + "\n")


class WatchedFolder:
    """Notes what is written in a folder after the model's first tool call; what was written before is the engine's own.

    Of its repository, only what belongs to git counts: some engines put a note of their own beside it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before: Mapping[str, str] | None = None

    def requested(self, exchange: Exchange) -> None:
        """Take a request to the model, before it is answered."""
        if exchange.is_call and self._before is None:
            self._before = self._contents()

    def changes(self) -> tuple[str, ...] | None:
        """Return the paths that were added, changed or removed since; None: the model called no tool."""
        before = self._before
        if before is None:
            return None
        after = self._contents()
        return tuple(sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path)))

    def _contents(self) -> Mapping[str, str]:
        """Return the path of each file and link, and a digest of its content."""
        found = dict[str, str]()
        for parent, folders, files in os.walk(self._folder):
            links = [name for name in folders if Path(parent, name).is_symlink()]
            for path in (Path(parent, name) for name in (*files, *links)):
                inside = path.relative_to(self._folder).parts
                if inside[0] != GIT or inside[1] in OF_GIT:
                    found["/".join(inside)] = _digest(path)
        return found


def _digest(path: Path) -> str:
    if path.is_symlink():
        return f"-> {path.readlink()}"
    with suppress(OSError):  # it may be gone by now
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "special"
    return "gone"


def _keep(git: Path, kind: bytes, content: bytes) -> str:
    """Store an object, and return its name."""
    whole = b"%s %d\0%s" % (kind, len(content), content)
    name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    path = git / "objects" / name[:2] / name[2:]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zlib.compress(whole))
    return name
