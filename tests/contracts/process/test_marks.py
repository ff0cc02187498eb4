"""The marks of trees, which descendants inherit."""

import resource
import sys
from pathlib import Path

import pytest

from turngate.process.execution import ProcessRequest, run
from turngate.process.marks import LIVE, mark_of, marking
from turngate.process.sessions import adopting_orphans

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_RTTIME exists only on Linux")
SHOWN = "import resource; print(resource.getrlimit(resource.RLIMIT_RTTIME)[0])"


def test_each_tree_has_a_mark_of_its_own(tmp_path: Path) -> None:
    """What a tree runs has a mark, another one each time; this process has none, and ended trees are forgotten."""
    own = mark_of(0)
    with adopting_orphans():
        outcomes = [run(ProcessRequest((sys.executable, "-c", SHOWN), tmp_path, {})) for _ in range(2)]
    marks = {int(outcome.stdout) for outcome in outcomes}
    assert len(marks) == 2
    assert min(marks) >= 2**40
    assert mark_of(0) == own
    assert not LIVE & marks


def test_without_adoption_nothing_is_marked(tmp_path: Path) -> None:
    """A program that uses turngate as a library keeps its limits, also for what it starts."""
    done = run(ProcessRequest((sys.executable, "-c", SHOWN), tmp_path, {}))
    assert int(done.stdout) == resource.getrlimit(resource.RLIMIT_RTTIME)[0]


def test_a_mark_is_taken_back_if_nothing_could_be_started() -> None:
    """After an error in the block the limit is as before, and the mark isn't counted."""
    own, known = mark_of(0), set(LIVE)

    def fail() -> None:
        with marking() as mark:
            assert mark == mark_of(0) != own
            raise ZeroDivisionError

    with adopting_orphans(), pytest.raises(ZeroDivisionError):
        fail()
    assert (mark_of(0), LIVE) == (own, known)


def test_a_limit_that_leaves_no_room_gives_no_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the limit can't be set, there is no mark, and no error."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (200_000, 200_000))
    with adopting_orphans(), marking() as mark:
        assert mark is None


def test_a_process_that_is_gone_has_no_mark() -> None:
    """A process that can't be examined has no mark."""
    assert mark_of(2**22 + 1) is None
