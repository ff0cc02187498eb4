import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from tests.patience import PATIENCE
from tests.reference.server.output_schema import hostile
from tests.reference.server.output_schema.hostile import ENDLESS
from turngate.errors import EnvironmentFailed
from turngate.process.launch import critical
from turngate_reference.server.output_schema import checker as module
from turngate_reference.server.output_schema.checker import ChecksBusyError, SchemaChecker, SchemaTooCostlyError

STUCK = hostile.doubling(64)


class Asking:
    """A caller on a separate thread; `outcome` is its result or error."""

    def __init__(self, ask: Callable[[], str | None]) -> None:
        self.outcome: object = "nothing"
        self._ask = ask
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.outcome = self._ask()
        except (ChecksBusyError, EnvironmentFailed) as error:
            self.outcome = error

    def ended(self) -> object:
        """Wait for the outcome."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self.outcome


@pytest.fixture(name="checker")
def _checker() -> Iterator[SchemaChecker]:
    """Provide a checker with no time limit and two places."""
    with closing(SchemaChecker(ENDLESS, places=2)) as checker:
        yield checker


def test_one_process_does_every_check() -> None:
    """The process starts with the first check, and survives a check that costs too much."""
    with closing(SchemaChecker(0.2)) as checker:
        assert checker.pid is None
        assert checker.schema_flaw({"type": "object"}) is None
        pid = checker.pid
        with pytest.raises(SchemaTooCostlyError, match=r"more than 0\.2 s of CPU time"):
            checker.schema_flaw(STUCK)
        with pytest.raises(SchemaTooCostlyError):
            checker.data_flaw(hostile.BACKTRACKED, hostile.BACKTRACKING)
        assert "required" in (checker.data_flaw({}, {"required": ["x"]}) or "")
        assert "external" in (checker.schema_flaw({"$ref": "http://127.0.0.1:9/x"}) or "")
        assert checker.pid == pid is not None


def test_a_process_that_is_killed_in_a_check_is_replaced(checker: SchemaChecker) -> None:
    """The next process repeats the check; if that one dies too, the check fails, and the next check works."""
    asking = Asking(lambda: checker.schema_flaw(STUCK))
    first, _ = hostile.check_in_progress(lambda: checker.pid)
    os.kill(first.pid, signal.SIGKILL)
    second, fork = hostile.check_in_progress(lambda: None if checker.pid == first.pid else checker.pid)
    os.kill(second.pid, signal.SIGKILL)
    assert isinstance(asking.ended(), EnvironmentFailed)
    fork.wait(PATIENCE)
    assert checker.schema_flaw({"type": 7})
    assert checker.pid not in (None, first.pid, second.pid)


def test_a_process_that_stands_still_is_replaced(checker: SchemaChecker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that hangs without using CPU time is ended by the wall clock."""
    assert checker.schema_flaw({}) is None
    assert checker.pid
    os.kill(checker.pid, signal.SIGSTOP)
    monkeypatch.setattr(module, "STUCK_SECONDS", 0.1)
    with pytest.raises(SchemaTooCostlyError, match=r"more than 0\.1 s"):
        checker.schema_flaw({})
    monkeypatch.undo()
    assert checker.schema_flaw({}) is None


def test_only_so_many_wait_and_close_fails_them_all(checker: SchemaChecker) -> None:
    """With one check running and one waiting, a third caller is rejected at once; `close` fails the other two."""
    waiting = [Asking(lambda: checker.schema_flaw(STUCK))]
    process, fork = hostile.check_in_progress(lambda: checker.pid)
    queued, submit = threading.Event(), checker._queue.submit
    checker._queue.submit = lambda *check: (submit(*check), queued.set())[0]  # type: ignore[method-assign, assignment, func-returns-value]
    waiting.append(Asking(lambda: checker.schema_flaw({})))
    assert queued.wait(PATIENCE)
    with pytest.raises(ChecksBusyError, match="2 output schemas are being checked already"):
        checker.schema_flaw({})
    checker.close()
    assert [str(asking.ended()) for asking in waiting] == ["the server is stopping"] * 2
    with pytest.raises(ChecksBusyError, match="the server is stopping"):
        checker.schema_flaw({})
    assert not process.is_running()
    fork.wait(PATIENCE)


def test_a_caller_waits_no_longer_than_its_patience() -> None:
    """The caller gets an error, and its place is freed once its check has ended."""
    with closing(SchemaChecker(ENDLESS, places=1, patience=0.1)) as checker:
        with pytest.raises(ChecksBusyError, match=r"took longer than 0\.1 s"):
            checker.schema_flaw(STUCK)
        with pytest.raises(ChecksBusyError, match="1 output schemas"):
            checker.schema_flaw({})


def test_no_check_is_done_where_others_wait(checker: SchemaChecker) -> None:
    """Requesting a check inside a transaction raises an error."""
    with critical("a transaction"), pytest.raises(RuntimeError, match="an output schema is checked in a transaction"):
        checker.schema_flaw({})
