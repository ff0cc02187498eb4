"""Tests of the order of actions for runs, and of their deadlines."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from tests.patience import PATIENCE
from turngate_reference.server.orchestrator.run_inbox import RETRY_SECONDS, RunInbox

FAILURES: list[tuple[str, str]] = []


@pytest.fixture(name="now")
def _now() -> list[float]:
    return [0.0]


@pytest.fixture(name="inbox")
def _inbox(now: list[float]) -> Iterator[RunInbox]:
    with closing(RunInbox(lambda: now[0], lambda run_id, error: FAILURES.append((run_id, str(error))))) as inbox:
        yield inbox


def settle(inbox: RunInbox) -> None:
    """Wait until all due actions are done."""
    for _ in range(3):
        done = threading.Event()
        inbox.put("another run", done.set)
        assert done.wait(PATIENCE)


def failing(times: int, action: Callable[[], None]) -> Callable[[], None]:
    """Return an action that succeeds only after this many attempts."""
    left = [sqlite3.OperationalError("database is locked")] * times

    def attempt() -> None:
        if left:
            raise left.pop()
        action()

    return attempt


def test_what_the_store_can_not_take_is_done_before_what_came_later(inbox: RunInbox, now: list[float]) -> None:
    """The death of a process doesn't overtake the end of its turn; other runs continue meanwhile."""
    done: list[str] = []
    inbox.put("a", failing(2, lambda: done.append("turn ended")))
    inbox.put("a", lambda: done.append("gone"))
    inbox.put("b", lambda: done.append("other"))
    settle(inbox)
    assert done == ["other"]
    for _ in range(2):
        now[0] += RETRY_SECONDS
        settle(inbox)
    assert done == ["other", "turn ended", "gone"]


def test_a_failure_ends_nothing_else(inbox: RunInbox) -> None:
    """An internal error is reported for its run, and the next action is performed."""
    FAILURES.clear()
    done: list[str] = []
    inbox.put("a", lambda: done.remove("what is not there"))
    inbox.put("a", lambda: done.append("next"))
    settle(inbox)
    assert done == ["next"]
    assert FAILURES == [("a", "list.remove(x): x not in list")]


def test_what_came_before_a_deadline_counts(inbox: RunInbox, now: list[float]) -> None:
    """A deadline that passes while an earlier event waits for the store comes after it, and is void if replaced."""
    done: list[str] = []
    inbox.put("a", lambda: inbox.set_deadline("a", 5, lambda: done.append("too late")))
    settle(inbox)

    def ended_in_time() -> None:
        done.append("turn ended")
        inbox.set_deadline("a", 5, lambda: done.append("waited too long"))

    now[0] = 4.5
    inbox.put("a", failing(1, ended_in_time))
    settle(inbox)
    now[0] = 6.0
    settle(inbox)
    assert done == ["turn ended"]
    now[0] = 12.0
    settle(inbox)
    assert done == ["turn ended", "waited too long"]
