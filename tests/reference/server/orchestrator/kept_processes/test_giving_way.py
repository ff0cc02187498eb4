"""Tests of which runs may start, and which warm processes give way: as few as possible, and enough."""

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate_reference.server.orchestrator.kept_processes import SlotCheck, make_room, resident_memory


@dataclass(frozen=True)
class Slots:
    """The queue and the processes of a server."""

    queued: tuple[str, ...]
    free: int
    waiting: tuple[str, ...]
    ending: int

    def room(self) -> SlotCheck:
        """Make room."""
        return make_room(self.queued, self.free, self.waiting, self.ending)


@st.composite
def slots(draw: st.DrawFn) -> Slots:
    """Draw the slots of a server that has at least one free one, and never more processes than slots."""
    free = draw(st.integers(1, 6))
    waiting = draw(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=free))
    queued = draw(st.lists(st.sampled_from("abcdefghijklm"), unique=True, min_size=1, max_size=8))
    return Slots(tuple(queued), free, tuple(waiting), draw(st.integers(0, free - len(waiting))))


@pytest.mark.parametrize(
    "case, may_start, giving_way",
    [
        (Slots(("x",), 2, ("a",), 0), True, ()),
        (Slots(("x",), 2, ("a", "b"), 0), False, ("a",)),
        (Slots(("x",), 2, ("b",), 1), False, ()),
        (Slots(("a",), 1, ("a",), 0), True, ()),
        (Slots(("a", "x"), 2, ("a", "b"), 0), True, ("b",)),
        (Slots(("x", "a"), 1, ("a",), 0), False, ("a",)),
        (Slots(("x", "a", "y"), 2, ("a",), 0), True, ()),
        (Slots(("x", "y", "a"), 3, ("a", "b", "c"), 0), False, ("b", "c")),
        (Slots((), 1, ("a",), 0), False, ()),
    ],
)
def test_an_example(case: Slots, may_start: bool, giving_way: tuple[str, ...]) -> None:  # noqa: FBT001
    """A free slot needs no room, an ending process makes some, and a queued run keeps its process if it can."""
    assert case.room() == SlotCheck(may_start, giving_way)


@given(slots())
def test_the_runs_that_can_start_keep_their_processes(case: Slots) -> None:
    """A reply goes to the living process if its run is among the next to start."""
    assert not set(case.room().giving_way) & set(case.queued[: case.free])


@given(slots())
def test_as_many_give_way_as_needed_and_no_more(case: Slots) -> None:
    """Then every run that can start has a slot; with one process fewer, one would lack it."""
    starting, giving_way = case.queued[: case.free], case.room().giving_way
    staying = [run_id for run_id in case.waiting if run_id not in (*starting, *giving_way)]
    used = len(starting) + len(staying)
    assert used <= case.free
    assert not giving_way or used == case.free


@given(slots())
def test_a_run_starts_only_into_a_free_slot(case: Slots) -> None:
    """Processes never exceed the slots, even while some are being ended."""
    needed = case.queued[0] not in case.waiting
    if case.room().may_start:
        assert needed + len(case.waiting) + case.ending <= case.free


@given(slots())
def test_the_first_run_starts_once_those_that_gave_way_are_gone(case: Slots) -> None:
    """It never waits for more than that."""
    giving_way = case.room().giving_way
    after = Slots(case.queued, case.free, tuple(run for run in case.waiting if run not in giving_way), 0)
    assert after.room() == SlotCheck(may_start=True, giving_way=())


@given(slots())
def test_the_longest_wait_ends_first(case: Slots) -> None:
    """Among the runs without a reply; only if these are not enough, replies lose their processes."""
    giving_way = case.room().giving_way
    unasked = [run_id for run_id in case.waiting if run_id not in case.queued]
    assert giving_way[: len(unasked)] == tuple(unasked[: len(giving_way)])


def test_memory_counts_the_whole_tree() -> None:
    """A child's memory counts; a process that is gone uses none."""
    code = "import subprocess, sys; subprocess.Popen(['cat']); print(flush=True); sys.stdin.read()"
    pipe: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipe) as parent:
        assert parent.stdout
        parent.stdout.readline()
        whole = resident_memory(parent.pid)
        assert whole > psutil.Process(parent.pid).memory_info().rss
        parent.communicate(b"")
    assert resident_memory(parent.pid) == 0


def test_what_ends_while_it_is_measured_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that has ended since it was listed uses none, and the others still count."""
    own = resident_memory(os.getpid())
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    ended = psutil.Process()
    monkeypatch.setattr(ended, "memory_info", lambda: (_ for _ in ()).throw(psutil.NoSuchProcess(gone.pid)))
    monkeypatch.setattr(psutil.Process, "children", lambda _self, **_: [ended])
    assert 0 < resident_memory(os.getpid()) <= 2 * own
