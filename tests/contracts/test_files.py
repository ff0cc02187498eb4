import multiprocessing
import os
from pathlib import Path

import pytest

from turngate.files import default_cache, locked, write_atomically


def _take(path: Path, shared: bool) -> None:  # noqa: FBT001 - multiprocessing hands it over by position
    try:
        with locked(path, shared=shared, wait=False):
            os._exit(0)
    except BlockingIOError:
        os._exit(1)


def taken_elsewhere(path: Path, *, shared: bool = False) -> bool:
    """Whether another process can take the lock now."""
    process = multiprocessing.get_context("fork").Process(target=_take, args=(path, shared))
    process.start()
    process.join()
    return process.exitcode == 0


@pytest.mark.parametrize("folder", [True, False], ids=["folder", "file"])
def test_a_lock_keeps_others_out_until_its_holder_is_done(tmp_path: Path, *, folder: bool) -> None:
    """A file or a folder that is locked can't be locked by another process; afterwards it can."""
    path = tmp_path if folder else tmp_path / "lock"
    with locked(path):
        assert not taken_elsewhere(path)
        assert not taken_elsewhere(path, shared=True)
    assert taken_elsewhere(path)


def test_shared_locks_exclude_only_exclusive_ones(tmp_path: Path) -> None:
    """Readers share a lock; a writer gets it when all of them are done."""
    path = tmp_path / "lock"
    with locked(path, shared=True):
        assert taken_elsewhere(path, shared=True)
        assert not taken_elsewhere(path)


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """The new text stands there, and nothing else is left; missing folders are made."""
    path = tmp_path / "made" / "file"
    for text in ("old", "new", "newest"):
        write_atomically(path, text, durable=text == "newest")
        assert path.read_text() == text
    assert list(path.parent.iterdir()) == [path]


def test_what_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the file can't be renamed, the old text stays and the other file goes."""
    path = tmp_path / "file"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    """A named pipe stays one and carries the text."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(path, "through")
    assert os.read(reader, 100) == b"through"
    os.close(reader)
    assert path.is_fifo()


def test_the_cache_is_where_the_user_or_the_platform_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """`TURNGATE_CACHE_DIR` goes first, then the platform's place for caches."""
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    monkeypatch.setenv("TURNGATE_CACHE_DIR", "/chosen")
    assert default_cache() == Path("/chosen")
    monkeypatch.delenv("TURNGATE_CACHE_DIR")
    assert default_cache().name == "turngate"
