"""The cache limit: which releases are removed, which stay, and who waits."""

import os
import shutil
import threading
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.tables import each
from turngate.errors import MachineError, UsageError
from turngate.process.execution import Stop
from turngate_probes.releases import cache
from turngate_probes.releases.cache import MARKER, CacheLimit, alone, bytes_below, evict, home_of, in_use, parse_size

SIZE = 40_960
Usage = namedtuple("Usage", "total used free")  # noqa: PYI024 - as shutil's


def entry(cache: Path, version: str, used_at: float) -> Path:
    """Put a release of `SIZE` bytes into the cache."""
    root = home_of("codex", cache) / version
    root.mkdir(parents=True)
    (root / "content").write_bytes(bytes(SIZE - 4096))
    (root / MARKER).write_text("x")
    os.utime(root / MARKER, (used_at, used_at))
    assert bytes_below(root) == SIZE
    return root


def fail_waiting() -> None:
    """Fail, since no waiting was expected."""
    raise AssertionError


def fail(_: float) -> None:
    """Simulate an interrupted wait."""
    raise InterruptedError


def reserve(place: CacheLimit, cache: Path) -> None:
    """Ask for more space than there is."""
    with place.reserved(home_of("codex", cache) / "2.0.0", print):
        pytest.fail("there is no room")


@each("text, size", [("500", 500), ("500M", 5 * 10**8), ("2GB", 2 * 10**9), ("1.5g", 15 * 10**8), ("60 KiB", 60_000)])
def test_sizes_are_read_with_their_unit(text: str, size: int) -> None:
    """Sizes are read with their decimal unit, in upper or lower case."""
    assert parse_size(text) == size


@each("text", ["", "0", "much", "-1G", "1X", "0.0G"])
def test_what_is_no_size_is_refused(text: str) -> None:
    """Empty, zero and misspelled sizes are rejected."""
    with pytest.raises(UsageError, match="is not a size"):
        parse_size(text)


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    """The least recently used releases are removed first, and only as many as needed."""
    old, older, new = (entry(tmp_path, v, at) for v, at in (("2.0.0", 2), ("1.0.0", 1), ("3.0.0", 3)))
    with CacheLimit(tmp_path, 3 * SIZE + SIZE // 2, fail).reserved(home_of("codex", tmp_path) / "4.0.0", print):
        assert [root.exists() for root in (older, old, new)] == [False, True, True]


def test_what_is_in_use_stays(tmp_path: Path) -> None:
    """A release in use is never removed, and counts as the most recently used afterwards."""
    old, new = entry(tmp_path, "1.0.0", 1), entry(tmp_path, "2.0.0", 2)
    with in_use(old):
        assert not evict(old)
        with CacheLimit(tmp_path, 2 * SIZE + SIZE // 2, fail).reserved(home_of("codex", tmp_path) / "3.0.0", print):
            assert (old.exists(), new.exists()) == (True, False)
    assert (old / MARKER).stat().st_mtime > 2
    assert evict(old)
    assert not old.exists()


def test_what_is_ours_is_waited_for(tmp_path: Path) -> None:
    """A second reservation waits, and says so, until a release that this process uses is done."""
    first = entry(tmp_path, "1.0.0", 1)
    waits, over = threading.Event(), threading.Event()

    def until_over(_: float) -> None:
        assert over.wait(30)

    place = CacheLimit(tmp_path, SIZE, until_over)

    def install() -> bool:
        with place.reserved(home_of("codex", tmp_path) / "2.0.0", lambda _: waits.set()):
            return first.exists()

    with ThreadPoolExecutor(1) as pool:
        with in_use(first), place.held(first):
            second = pool.submit(install)
            assert waits.wait(30)
        over.set()
        assert second.result(30) is False


def test_a_wait_can_be_interrupted(tmp_path: Path) -> None:
    """An interrupt ends the wait for space."""
    first = entry(tmp_path, "1.0.0", 1)
    place = CacheLimit(tmp_path, SIZE, fail)
    with in_use(first), place.held(first), pytest.raises(InterruptedError):
        reserve(place, tmp_path)


def test_a_limit_that_no_release_fits_is_told(tmp_path: Path) -> None:
    """If other processes use the space and nothing of ours could free any, an error comes at once."""
    first = entry(tmp_path, "1.0.0", 1)
    with in_use(first), pytest.raises(MachineError, match="the cache is limited") as failed:
        reserve(CacheLimit(tmp_path, SIZE, fail), tmp_path)
    assert "--cache-limit" in failed.value.hint


def test_a_full_disk_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk limits the cache, however high the configured limit is."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 10**12, 1000))
    place = CacheLimit(tmp_path, 10**12, fail)
    with pytest.raises(MachineError, match="the disk is full"):
        place.held(tmp_path).__enter__()
    with pytest.raises(MachineError, match="the disk is full"):
        reserve(place, tmp_path)


def test_half_installed_releases_count(tmp_path: Path) -> None:
    """Half-installed releases count towards the used space; a linked file counts once."""
    root = entry(tmp_path, "1.0.0", 1)
    partial = root.parent / ".2.0.0.partial"
    partial.mkdir()
    (partial / "a").write_bytes(bytes(4096))
    (partial / "b").hardlink_to(partial / "a")
    with alone(root.parent / ".2.0.0.lock", fail_waiting):
        assert CacheLimit(tmp_path, SIZE, fail).used() == SIZE + 4096
    # an interrupted installation left it
    assert CacheLimit(tmp_path, SIZE, fail).used() == SIZE
    assert cache.bytes_below(tmp_path / "nowhere") == 0


def test_what_lies_beyond_the_limit_is_let_go(tmp_path: Path) -> None:
    """The least recently used releases beyond the limit are removed; one in use stays, whatever its size."""
    used, old, new = (entry(tmp_path, v, at) for v, at in (("1.0.0", 1), ("2.0.0", 2), ("3.0.0", 3)))
    with in_use(used):
        CacheLimit(tmp_path, 2 * SIZE, fail).trim()
    assert [root.exists() for root in (used, old, new)] == [True, False, True]


def test_a_stop_ends_the_wait_for_another_installation(tmp_path: Path) -> None:
    """While another process installs the release, an interrupt is heard."""
    stop, lock = Stop(), tmp_path / "lock"
    with alone(lock, stop.set), pytest.raises(MachineError, match="interrupted"), alone(lock, stop.set, stop):
        pass
