"""Tests of kept processes between turns: when they give way, that each ends exactly once, and what their loss means."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.reference.server.orchestrator.modelled_server import ENGINE
from tests.reference.server.orchestrator.test_run_inbox import settle
from tests.reference.server.warm_env import ENDS, NEW, warm_env
from tests.reference.server_env import ServerEnv
from turngate.contract import load
from turngate.model import Mode
from turngate_reference.server.orchestrator import kept_processes
from turngate_reference.server.orchestrator.kept_loss import STICKY, WARM, Policy
from turngate_reference.server.orchestrator.kept_processes import MEMORY_SECONDS, KeptProcess, KeptProcesses
from turngate_reference.server.store.runs import ProcessNote
from turngate_reference.server.transports.events import AgentText, Gone, Lost, Opened, OpenRequest, ProcessEvent
from turngate_reference.states import State

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

    def __init__(self, memory: int | None = None) -> None:
        self.now, self.host, self.forgotten, self.freed = 0.0, Host(), list[str](), 0
        self.replied, self.in_turn, self.released = set[str](), set[str](), list[str]()
        self.kept = KeptProcesses(
            self.host,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            self.released.append,
            self._free,
            memory,
            lambda: self.now,
        )

    def is_over(self, _policy: object, run_id: str, *_: object) -> bool:
        """Whether a process must end after its time."""
        return run_id not in self.replied

    def gone(self, _policy: object, run_id: str, *_: object) -> bool:
        """Note that a process is gone; False if a turn has begun that will do so."""
        self.forgotten.append(run_id)
        return run_id not in self.in_turn

    def open(self, run_id: str, policy: Policy = WARM) -> KeptProcess:
        """Start a process for a turn."""
        return self.kept.open(run_id, policy, ENGINE, REQUEST)

    def keep(self, run_id: str, seconds: int = 60) -> bool:
        """End a turn."""
        process = self.kept.find(run_id)
        assert process
        return self.kept.keep(process, seconds)

    def _free(self) -> None:
        self.freed += 1

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
    """Not before; the note about it is removed, and a slot may be free."""
    pool.wait("1")
    pool.now += 59
    pool.settle()
    assert (pool.host.ended, pool.kept.has_process("1"), pool.freed) == ([], True, 0)
    pool.now += 1
    pool.settle()
    assert (pool.host.ended, pool.forgotten, pool.kept.has_process("1"), pool.freed) == (["1"], ["1"], False, 1)


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
    """The reply came in time, however long the run then waits for a slot."""
    pool.wait("1", "2")
    pool.replied.add("1")
    pool.now += 60
    pool.settle()
    assert pool.host.ended == ["2"]
    assert pool.kept.take("1")


def test_it_gives_way_to_another_run(pool: Pool) -> None:
    """With two slots for two waiting processes, the one that has waited longest ends, and then there is room."""
    pool.host.slow = True
    pool.wait("1", "2")
    assert not pool.kept.has_room(["3"], 2, [])
    assert pool.host.ended == ["1"]
    assert not pool.kept.has_room(["3"], 2, [])
    assert pool.host.ended == ["1"]
    pool.host.gone("1")
    pool.settle()
    assert pool.kept.has_room(["3"], 2, [])
    assert pool.host.ended == ["1"]


def test_as_many_give_way_as_runs_wait(pool: Pool) -> None:
    """All at once, however many they are; with free slots, none does."""
    pool.wait("1", "2", "3")
    assert pool.kept.has_room(["4", "5"], 5, [])
    assert pool.host.ended == []
    pool.kept.has_room(["4", "5"], 3, [])
    assert pool.host.ended == ["1", "2"]


def test_a_run_with_a_process_needs_no_room(pool: Pool) -> None:
    """Its reply goes to its own process, which doesn't give way to runs behind it."""
    pool.wait("1", "2")
    assert pool.kept.has_room(["1", "3"], 2, [])
    assert pool.host.ended == ["2"]


def test_a_process_shares_the_slot_of_its_run(pool: Pool) -> None:
    """From its claim until the turn has it, and from the turn's end until the slot is free, it needs no slot itself."""
    pool.wait("1")
    assert pool.kept.has_room(["2"], 1, ["1"])
    assert pool.host.ended == []


def test_the_one_between_two_turns_is_ended(pool: Pool) -> None:
    """Whether its turn is about to be over or it waits already; one in a turn is left alone."""
    pool.open("1")
    pool.kept.finish_waiting("1", 0.01)
    assert pool.host.ended == []
    ending = threading.Thread(target=pool.kept.finish_waiting, args=("1", PATIENCE))
    ending.start()
    pool.keep("1")
    ending.join(PATIENCE)
    assert (pool.host.ended, pool.kept.has_process("1")) == (["1"], False)
    pool.kept.finish_waiting("1", 0.01)


def test_a_taken_process_never_gives_way(pool: Pool) -> None:
    """It runs a turn, which holds the slot."""
    pool.wait("1")
    pool.kept.take("1")
    assert not pool.kept.has_room(["2"], 0, [])
    pool.kept.end("1")
    assert pool.host.ended == []


def test_a_process_that_is_being_ended_is_not_taken(pool: Pool) -> None:
    """A turn waits until it is gone: a session never has two processes."""
    pool.host.slow = True
    pool.wait("1")
    pool.kept.end("1")
    taken: list[object] = []
    turn = threading.Thread(target=lambda: taken.append(pool.kept.take("1")))
    turn.start()
    pool.settle()
    assert taken == []
    pool.host.gone("1")
    turn.join(PATIENCE)
    assert taken == [None]


def test_one_that_is_lost_while_it_waits_is_not_taken(pool: Pool) -> None:
    """It is as if it had ended."""
    pool.wait("1")
    listener = pool.host.listeners["1"]
    listener(Lost("it has exited"))
    pool.host.gone("1")
    pool.settle()
    assert pool.kept.take("1") is None
    assert pool.forgotten == ["1"]


def test_one_whose_run_has_ended_is_gone_before_its_slot_is_free(pool: Pool) -> None:
    """`finish` returns when no process is left."""
    pool.open("1")
    pool.kept.finish("1")
    assert (pool.host.ended, pool.kept.has_process("1")) == (["1"], False)
    pool.kept.finish("1")
    assert pool.host.ended == ["1"]


def test_nothing_is_left_when_the_server_closes() -> None:
    """What waits is ended. The notes stay, since the store may be locked; the next server checks them."""
    pool = Pool()
    pool.wait("1", "2")
    pool.kept.close()
    assert (pool.host.ended, pool.forgotten) == (["1", "2"], [])


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
    assert pool.kept.take("1") is None
    pool.kept.end_all()
    assert (pool.host.ended, pool.kept.has_process("3"), pool.freed) == (["1", "2", "3"], False, 3)
    unlocked.set()
    pool.kept.close()


def test_no_process_waits_once_the_server_is_closing() -> None:
    """A turn that ends then must end its process; one that runs is not disturbed."""
    pool = Pool()
    pool.open("1")
    pool.kept.end_all()
    assert pool.host.ended == []
    assert not pool.keep("1")
    pool.kept.close()
    assert (pool.host.ended, pool.kept.has_process("1")) == (["1"], False)


def test_one_that_is_unwanted_ends_after_its_turn(pool: Pool) -> None:
    """Its turn goes on, but it doesn't wait for another one."""
    pool.open("1")
    pool.kept.end("1")
    assert pool.host.ended == []
    assert not pool.keep("1")


def test_a_sticky_process_never_gives_way(pool: Pool) -> None:
    """Its run would fail; a warm one that has waited less gives way instead."""
    pool.open("1", STICKY)
    pool.keep("1")
    pool.wait("2")
    assert not pool.kept.has_room(["3"], 0, ["1"])
    assert pool.host.ended == ["2"]


def test_the_slot_of_a_lost_sticky_process_is_freed_unless_a_turn_needs_it(pool: Pool) -> None:
    """A reply that came first has begun a turn, which takes the process, learns of the loss and frees the slot."""
    for run_id, is_settled in (("1", True), ("2", False)):
        pool.open(run_id, STICKY)
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
    with warm_env(closed_server_env) as env:
        env.ask()
        server = env.server_env.server
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
    assert not pool.kept.has_process("1")


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


def test_together_they_stay_below_the_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that has waited longest ends first; they are measured again, since idle processes may grow."""
    used = {1: 40, 2: 40, 3: 40}
    monkeypatch.setattr(kept_processes, "resident_memory", used.__getitem__)
    pool = Pool(memory=100)
    pool.wait("1", "2", "3")
    assert pool.host.ended == ["1"]
    used[2] = 61
    pool.now += MEMORY_SECONDS
    pool.settle()
    assert pool.host.ended == ["1", "2"]
    pool.kept.close()


def test_one_that_is_too_large_alone_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The limit holds for a single process, too; the server says once what such a process needs."""
    monkeypatch.setattr(kept_processes, "resident_memory", lambda _pid: 101 * 2**20)
    pool = Pool(memory=100 * 2**20)
    pool.wait("1")
    pool.wait("2")
    assert pool.host.ended == ["1", "2"]
    (warning,) = (record.getMessage() for record in caplog.records if record.levelname == "WARNING")
    assert "uses 101 MiB, more than the 100 MiB of --warm-memory" in warning
    pool.kept.close()


def test_a_waiting_process_does_not_hold_up_another_run(closed_server_env: ServerEnv) -> None:
    """On a server with one slot, the second run starts at once; the first one continues later in a new process."""
    with warm_env(closed_server_env, slots=1) as env:
        first, _ = env.ask(prompt="paint the door")
        second, _ = env.ask(prompt="paint the wall")
        assert env.server_env.run(first).state is State.WAITING_USER
        env.reply(first, ENDS)
        env.server_env.wait(first, State.SUCCEEDED)
        assert env.deliveries(first) == [NEW, NEW]
        assert "paint the door" in env.last_request()
        assert env.server_env.run(second).state is State.WAITING_USER


def test_too_little_memory_means_no_waiting_process(closed_server_env: ServerEnv) -> None:
    """The run waits without its process, and continues."""
    with warm_env(closed_server_env, warm_memory=1) as env:
        run_id, _ = env.ask()
        env.until_cold(run_id)
        env.turn(run_id)
        assert env.deliveries(run_id) == [NEW, NEW]
