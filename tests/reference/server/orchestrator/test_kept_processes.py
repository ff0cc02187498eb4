"""Tests of kept processes between turns: that each ends exactly once, and what their loss means."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.reference.server.orchestrator.modelled_server import ENGINE
from tests.reference.server.orchestrator.test_run_inbox import settle
from tests.reference.server.sticky_env import create, put_engine
from tests.reference.server_env import ASK, ServerEnv
from turngate.contract import load
from turngate.model import Mode
from turngate_reference.server.orchestrator.kept_processes import KeptProcess, KeptProcesses
from turngate_reference.server.store.runs import ProcessNote
from turngate_reference.server.transports.events import AgentText, Gone, Lost, Opened, OpenRequest, ProcessEvent

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

    def end(self, run_id: str) -> None:
        """End a process."""
        if run_id in self.listeners:
            self.ended.append(run_id)
        if not self.slow:
            self.gone(run_id)

    def gone(self, run_id: str) -> None:
        """Let a process be gone."""
        if listener := self.listeners.pop(run_id, None):
            listener(Gone(0))

    def close(self) -> None:
        """End nothing more."""


class Pool:
    """Processes on a fake host, with a fake clock."""

    def __init__(self) -> None:
        self.now, self.host, self.forgotten = 0.0, Host(), list[str]()
        self.replied, self.in_turn, self.released = set[str](), set[str](), list[str]()
        self.kept = KeptProcesses(
            self.host,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            self.released.append,
            lambda: self.now,
        )

    def is_over(self, run_id: str, *_: object) -> bool:
        """Whether a process must end after its time."""
        return run_id not in self.replied

    def gone(self, run_id: str, *_: object) -> bool:
        """Note that a process is gone; False if a turn has begun that will do so."""
        self.forgotten.append(run_id)
        return run_id not in self.in_turn

    def open(self, run_id: str) -> KeptProcess:
        """Start a process for a turn."""
        return self.kept.open(run_id, ENGINE, REQUEST)

    def keep(self, run_id: str, seconds: int = 60) -> bool:
        """End a turn."""
        process = self.kept.find(run_id)
        assert process
        return self.kept.keep(process, seconds)

    def wait(self, *run_ids: str) -> None:
        """Let runs keep a process, one after the other."""
        for run_id in run_ids:
            self.now += 1
            self.open(run_id)
            assert self.keep(run_id)
        self.settle()

    def settle(self) -> None:
        """Wait until all due actions are done."""
        settle(self.kept._inbox)


@pytest.fixture(name="pool")
def _pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.host.slow = False
    pool.kept.close()


def test_it_ends_after_its_time(pool: Pool) -> None:
    """Not before; the note about it is removed, and its slot is free."""
    pool.wait("1")
    pool.now += 59
    pool.settle()
    assert (pool.host.ended, pool.released) == ([], [])
    pool.now += 1
    pool.settle()
    assert (pool.host.ended, pool.forgotten, pool.released) == (["1"], ["1"], ["tag"])
    assert pool.kept.find("1") is None


def test_one_that_is_taken_for_a_turn_outlives_its_time(pool: Pool) -> None:
    """After the turn it waits anew."""
    pool.wait("1")
    taken = pool.kept.take("1")
    pool.now += 100
    pool.settle()
    assert pool.host.ended == []
    pool.keep("1")
    pool.settle()
    assert pool.kept.take("1") is taken
    assert pool.kept.take("2") is None


def test_one_whose_run_has_a_reply_outlives_its_time(pool: Pool) -> None:
    """The reply came in time, however long its turn then takes to begin."""
    pool.wait("1", "2")
    pool.replied.add("1")
    pool.now += 60
    pool.settle()
    assert pool.host.ended == ["2"]
    assert pool.kept.take("1")


def test_a_process_that_is_being_ended_is_taken_when_it_is_gone(pool: Pool) -> None:
    """The turn learns of the loss, and gets no other process."""
    pool.host.slow = True
    pool.wait("1")
    pool.in_turn = {"1"}
    pool.kept.end("1")
    taken: list[KeptProcess | None] = []
    turn = threading.Thread(target=lambda: taken.append(pool.kept.take("1")))
    turn.start()
    pool.settle()
    assert taken == []
    pool.host.gone("1")
    turn.join(PATIENCE)
    (process,) = taken
    assert process
    assert process.events.get(timeout=PATIENCE) == Gone(0)


def test_one_whose_run_has_ended_is_gone_before_its_slot_is_free(pool: Pool) -> None:
    """`finish` returns when no process is left."""
    process = pool.open("1")
    pool.kept.finish("1")
    assert (pool.host.ended, process.is_gone) == (["1"], True)
    pool.kept.finish("1")
    assert pool.host.ended == ["1"]


def test_nothing_is_left_when_the_server_closes() -> None:
    """What waits is ended, and settled."""
    pool = Pool()
    pool.wait("1", "2")
    pool.kept.close()
    assert (pool.host.ended, pool.forgotten) == (["1", "2"], ["1", "2"])


def test_nothing_waits_for_a_locked_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns, other processes and the end of the server go on while the end of a process can't be written."""
    pool, unlocked = Pool(), threading.Event()
    tried = threading.Event()

    def locked(*_: object) -> bool:
        tried.set()
        return unlocked.wait(PATIENCE)

    monkeypatch.setattr(pool, "gone", locked)
    pool.wait("1", "2", "3")
    pool.kept.end("1")
    assert tried.wait(PATIENCE)
    pool.kept.finish("2")
    assert pool.kept.take("1")
    pool.kept.end_all()
    assert (pool.host.ended, pool.kept.note("3")) == (["1", "2", "3"], None)
    unlocked.set()
    pool.kept.close()


def test_no_process_waits_once_the_server_is_closing() -> None:
    """A turn that ends then must end its process; one that runs is not disturbed."""
    pool = Pool()
    process = pool.open("1")
    pool.kept.end_all()
    assert pool.host.ended == []
    assert not pool.keep("1")
    pool.kept.close()
    assert (pool.host.ended, process.is_gone) == (["1"], True)


def test_one_that_is_unwanted_ends_after_its_turn(pool: Pool) -> None:
    """Its turn goes on, but it doesn't wait for another one."""
    pool.open("1")
    pool.kept.end("1")
    assert pool.host.ended == []
    assert not pool.keep("1")


def test_the_slot_of_a_lost_process_is_freed_unless_a_turn_needs_it(pool: Pool) -> None:
    """A reply that came first has begun a turn, which takes the process, learns of the loss and frees the slot."""
    for run_id, is_settled in (("1", True), ("2", False)):
        pool.open(run_id)
        pool.keep(run_id)
        pool.in_turn = set() if is_settled else {run_id}
        lost = Lost("it has exited")
        pool.host.listeners[run_id](lost)
        pool.host.gone(run_id)
        pool.settle()
        assert pool.released == (["tag"] if is_settled else [])
        taken = pool.kept.take(run_id)
        assert (taken is None) == is_settled
        assert taken is None or [taken.events.get(timeout=PATIENCE) for _ in range(2)] == [lost, Gone(0)]
        pool.released.clear()


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

    pool.host.open = fail  # type: ignore[method-assign, assignment]
    with pytest.raises(RuntimeError):
        pool.open("1")
    pool.kept.finish("1")
    assert pool.kept.find("1") is None


def test_what_it_says_while_it_waits_belongs_to_no_turn(pool: Pool) -> None:
    """The next turn begins with the next event."""
    pool.wait("1")
    pool.host.listeners["1"](AgentText("late"))
    taken = pool.kept.take("1")
    assert taken
    pool.host.listeners["1"](AgentText("hello"))
    assert taken.events.get(timeout=PATIENCE) == AgentText("hello")
    pool.keep("1")
    pool.host.listeners["1"](AgentText("late"))
    assert taken.events.empty()
    assert taken.note == ProcessNote("tag", 1, 1.0, "session")
