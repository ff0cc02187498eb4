import shutil
import subprocess
from pathlib import Path

import pytest

from tests.probes import turns as t
from turngate_probes.harness.repository import WatchedFolder, make_repository

CALL = t.exchange(reply="tool_call cron")


@pytest.mark.skipif(shutil.which("git") is None, reason="git isn't installed")
def test_git_knows_the_repository(tmp_path: Path) -> None:
    """It has one commit on main, and a worktree can be made of it, which is then seen."""
    make_repository(tmp_path)
    run = ("git", "-C", str(tmp_path), "-c", "safe.directory=*")
    assert subprocess.check_output([*run, "log", "--format=%s %D"], text=True) == "Begin HEAD -> main\n"
    assert subprocess.check_output([*run, "fsck", "--strict"], text=True) == ""
    watched = WatchedFolder(tmp_path)
    watched.requested(CALL)
    subprocess.check_call([*run, "worktree", "add", "--quiet", "-b", "other", str(tmp_path / "tree")])
    assert {".git/refs/heads/other", ".git/worktrees/tree/HEAD", "tree/README.md"} <= {*(watched.changes() or ())}


def test_what_is_written_after_the_first_call_is_seen(tmp_path: Path) -> None:
    """Added, changed and removed files and links count, but not what was written before, or beside git's own files."""
    make_repository(tmp_path)
    watched = WatchedFolder(tmp_path)
    watched.requested(t.exchange())
    assert watched.changes() is None
    (tmp_path / "own").write_text("a setting of the engine")
    (tmp_path / "gone").touch()
    watched.requested(CALL)
    assert watched.changes() == ()
    (tmp_path / ".git" / "note").touch()
    (tmp_path / ".git" / "index").touch()
    (tmp_path / "gone").unlink()
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "README.md").write_text("changed")
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/other\n")
    assert watched.changes() == (".git/HEAD", "README.md", "gone", "link")
