"""Tests of what carries out the table of kept processes: deadlines, threads, a locked store, the end of a server."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.patience import PATIENCE
from tests.reference.server.orchestrator.modelled_server import ENGINE
from tests.reference.server.sticky_env import create, put_engine
from tests.reference.server_env import ASK, ServerEnv
from turngate.contract import load
from turngate.model import Mode
from turngate_reference.server.orchestrator.decide import Decision
from turngate_reference.server.orchestrator.kept_processes import KeptProcess, KeptProcesses
from turngate_reference.server.orchestrator.kept_states import Effect, KeptCause, KeptState
from turngate_reference.server.orchestrator.run_files import Records
from turngate_reference.server.store.database import RETRY_SECONDS, Store
from turngate_reference.server.store.runs import ProcessNote
from turngate_reference.server.transports.events import (
    AgentText,
    Gone,
    Lost,
    Opened,
    OpenRequest,
    ProcessEvent,
    PromptSent,
    TurnEnded,
)

REQUEST = OpenRequest(Path("codex"), load.contract("codex").at(), Path("/"), {}, Mode.INTERACTIVE, "tag", Path("/"))


class Host:
    """Processes that are ready at once; each is gone when it is ended, or later if the host is `slow`."""

    def __init__(self) -> None:
        self.listeners: dict[str, Callable[[ProcessEvent], None]] = {}
        self.ended: list[str] = []
        self.slow = False

    def open(self, run_id: str, _request: object, listener: Callable[[ProcessEvent], None]) -> None:
        """Start a process, whose id is the number of its run."""
        self.listeners[run_id] = listener
        listener(Opened(int(run_id), 1.0, "session", ("app-server",)))

    def prompt(self, run_id: str, _text: str) -> None:
        """Pass a prompt on, which arrives."""
        self.listeners[run_id](PromptSent())

    def end(self, run_id: str) -> None:
        """End a process."""
        self.ended.append(run_id)
        if not self.slow:
            self.gone(run_id)

    def gone(self, run_id: str) -> None:
        """Let a process be gone."""
        if listener := self.listeners.pop(run_id, None):
            listener(Gone(0))

    def close(self) -> None:
        """End nothing more."""


class Pool(KeptProcesses):
    """Processes on a fake host, with a fake clock and no store; a run that is `replied` to waits no more."""

    def __init__(self) -> None:
        self.now, self.fake, self.released = 0.0, Host(), list[str]()
        self.replied, self.failed, self.locked = set[str](), dict[str, str](), threading.Event()
        super().__init__(
            self.fake,  # type: ignore[arg-type]
            cast(Store, None),
            cast(Records, None),
            self.released.append,
            lambda: self.now,
        )

    def fail_waiting(self, process: KeptProcess, decision: Decision) -> bool:
        """Fail a run that waits."""
        if self.locked.is_set():
            raise sqlite3.OperationalError("database is locked")
        if process.run_id in self.replied:
            return False
        assert decision.error
        self.failed.setdefault(process.run_id, decision.error.code)
        return True

    def asks(self, *run_ids: str) -> None:
        """Let the first turns of runs end with a question, one second after the other."""
        for run_id in run_ids:
            self.now += 1
            self.open(run_id, ENGINE, REQUEST, "go", 60)
            self.fake.listeners[run_id](TurnEnded("?", None, "session", declined=False))
            self.tell(run_id, KeptCause.RUN_WAITS)
        self.settle()

    def passes(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.settle()

    def settle(self) -> None:
        """Wait until the thread has nothing to do now."""
        with self._changed:
            self._changed.notify_all()
            assert self._changed.wait_for(self._is_idle, PATIENCE)

    def _is_idle(self) -> bool:
        later = [p.due > self.now and (p.todo is None or p.retry > self.now) for p in self._processes.values()]
        return all(later)


@pytest.fixture(name="pool")
def _pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.fake.slow = False
    pool.close()


def test_a_wait_ends_after_its_time(pool: Pool) -> None:
    """Not before, and not if a reply has come; then the run is told, and the slot is free."""
    pool.asks("1", "2")
    pool.replied.add("2")
    pool.passes(58)
    assert (pool.fake.ended, pool.released) == ([], [])
    pool.passes(2)
    assert (pool.fake.ended, pool.released) == (["1"], ["tag"])
    assert pool.failed == {"1": "INTERACTION_WAIT_TIMEOUT"}
    assert pool.find("1") is None
    assert pool.begin_turn("1", "go on") is None
    taken = pool.begin_turn("2", "go on")
    assert taken
    assert taken.orders.get(timeout=PATIENCE) == (Effect.NOTE, PromptSent())
    assert taken.due == pool.now + 60


def test_a_turn_begins_when_the_last_one_has_left(pool: Pool) -> None:
    """A reply may come before; what the process says between turns belongs to neither."""
    process = pool.open("1", ENGINE, REQUEST, "go", 60)
    old = process.orders
    pool.fake.listeners["1"](TurnEnded("?", None, "session", declined=False))
    turn = threading.Thread(target=lambda: pool.begin_turn("1", "go on"))
    turn.start()
    pool.fake.listeners["1"](AgentText("late"))
    pool.tell("1", KeptCause.RUN_WAITS)
    turn.join(PATIENCE)
    assert process.life.state is KeptState.WORKING
    assert process.orders.get(timeout=PATIENCE) == (Effect.NOTE, PromptSent())
    assert old.qsize() == 3
    assert process.note == ProcessNote("tag", 1, 1.0, "session")


def test_an_end_is_whole_when_the_process_is_gone(pool: Pool) -> None:
    """Who must know waits for it, and a second end changes nothing."""
    pool.open("1", ENGINE, REQUEST, "go", 60)
    pool.end_wholly("1")
    pool.end_wholly("1")
    assert (pool.fake.ended, pool.note("1")) == (["1"], None)


def test_nothing_waits_for_a_locked_store(pool: Pool) -> None:
    """Turns and other processes go on while the end of a process can't be written, which is tried again."""
    pool.asks("1", "2")
    pool.locked.set()
    pool.fake.listeners["1"](Lost("it has exited"))
    pool.fake.gone("1")
    pool.settle()
    assert pool.begin_turn("2", "go on")
    pool.end("2")
    assert (pool.fake.ended, pool.released) == (["2"], [])
    pool.locked.clear()
    pool.passes(RETRY_SECONDS)
    assert (pool.failed, pool.released) == ({"1": "INTERACTION_PROCESS_LOST"}, ["tag"])


def test_an_error_of_ours_frees_the_slot(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread goes on with the next process."""
    pool.asks("1", "2")
    monkeypatch.setattr(pool, "fail_waiting", lambda *_: 1 / 0)
    for run_id in ("1", "2"):
        pool.end(run_id)
    pool.settle()
    assert pool.released == ["tag", "tag"]


@pytest.mark.parametrize("is_locked", [False, True])
def test_nothing_is_left_when_the_server_closes(*, is_locked: bool) -> None:
    """What waits is ended, and settled if the store can be written."""
    pool = Pool()
    pool.asks("1", "2")
    if is_locked:
        pool.locked.set()
    pool.close()
    assert (pool.fake.ended, len(pool.failed)) == (["1", "2"], 0 if is_locked else 2)


def test_a_server_ends_waiting_processes_before_it_waits_for_turns(closed_server_env: ServerEnv) -> None:
    """The turns may wait for a locked store."""
    put_engine(closed_server_env)
    with closed_server_env.opened():
        closed_server_env.question(create(closed_server_env, f"say {ASK}"))
        server = closed_server_env.server
        close, kept = server.dispatcher.close, server.kept

        def close_later() -> None:
            with kept._changed:
                assert kept._changed.wait_for(lambda: not kept._processes, PATIENCE)
            close()

        server.dispatcher.close = close_later  # type: ignore[method-assign]


def test_a_process_that_can_not_be_opened_is_none(pool: Pool) -> None:
    """Nobody waits for its end."""

    def fail(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    pool.fake.open = fail  # type: ignore[method-assign, assignment]
    with pytest.raises(RuntimeError):
        pool.open("1", ENGINE, REQUEST, "go", 60)
    pool.end_wholly("1")
    assert pool.find("1") is None
