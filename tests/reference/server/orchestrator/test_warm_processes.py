"""Tests of the processes that runs keep: when they give way, and that each is ended exactly once."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.reference.server.orchestrator.test_run_inbox import settle
from tests.reference.server.warm_env import ENDS, NEW, warm_env
from tests.reference.server_env import PATIENCE, ServerEnv
from turngate.contract import load
from turngate.model import Mode
from turngate_reference.server.orchestrator import warm_processes
from turngate_reference.server.orchestrator.warm_processes import MEMORY_SECONDS, WarmProcesses, resident_memory
from turngate_reference.server.states import State
from turngate_reference.server.sticky.events import Gone, Lost, Opened, StickyEvent, StickyRequest

REQUEST = StickyRequest(Path("codex"), load.contract("codex").at(), Path("/"), {}, Mode.INTERACTIVE, "tag", Path("/"))


class Host:
    """Processes that are ready at once; each is gone when it is ended, or later if the host is `slow`."""

    def __init__(self) -> None:
        self.listeners: dict[str, Callable[[StickyEvent], None]] = {}
        self.ended: list[str] = []
        self.slow = False

    def open(self, run_id: str, _request: object, listener: Callable[[StickyEvent], None]) -> None:
        """Start a process, whose id is the number of its run."""
        self.listeners[run_id] = listener
        listener(Opened(int(run_id), 1.0, "session", ("app-server",)))

    def prompt(self, run_id: str, text: str, *, checked: bool) -> None:
        """Take a prompt."""

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


class Pool:
    """Processes on a fake host, with a fake clock."""

    def __init__(self, memory: int | None = None) -> None:
        self.now, self.host, self.forgotten, self.freed = 0.0, Host(), list[str](), 0
        self.warm = WarmProcesses(self.host, self._forget, self._free, memory, lambda: self.now)  # type: ignore[arg-type]

    def _forget(self, run_id: str, _tag: str) -> None:
        self.forgotten.append(run_id)

    def _free(self) -> None:
        self.freed += 1

    def wait(self, *run_ids: str, seconds: float = 60.0) -> None:
        """Let runs keep a process, one after the other."""
        for run_id in run_ids:
            self.now += 1
            self.warm.open(run_id, REQUEST)
            self.warm.keep(run_id, seconds)
        self.settle()

    def settle(self) -> None:
        """Wait until all due actions are done."""
        settle(self.warm._inbox)


@pytest.fixture(name="pool")
def _pool() -> Iterator[Pool]:
    pool = Pool()
    yield pool
    pool.host.slow = False
    pool.warm.close()


def test_it_ends_after_its_time(pool: Pool) -> None:
    """Not before; the note about it is removed, and a slot may be free."""
    pool.wait("1")
    pool.now += 59
    pool.settle()
    assert (pool.host.ended, pool.warm.has_process("1"), pool.freed) == ([], True, 0)
    pool.now += 1
    pool.settle()
    assert (pool.host.ended, pool.forgotten, pool.warm.has_process("1"), pool.freed) == (["1"], ["1"], False, 1)


def test_one_that_is_taken_for_a_turn_outlives_its_time(pool: Pool) -> None:
    """After the turn it waits anew."""
    pool.wait("1")
    taken = pool.warm.take("1")
    pool.now += 100
    pool.settle()
    assert pool.host.ended == []
    pool.warm.keep("1", 60)
    pool.settle()
    assert pool.warm.take("1") is taken
    assert pool.warm.take("2") is None


def test_it_gives_way_to_another_run(pool: Pool) -> None:
    """With two slots for two waiting processes, the one that has waited longest ends, and then there is room."""
    pool.host.slow = True
    pool.wait("1", "2")
    assert not pool.warm.has_room(["3"], 2)
    assert pool.host.ended == ["1"]
    assert not pool.warm.has_room(["3"], 2)
    assert pool.host.ended == ["1"]
    pool.host.gone("1")
    pool.settle()
    assert pool.warm.has_room(["3"], 2)
    assert pool.host.ended == ["1"]


def test_as_many_give_way_as_runs_wait(pool: Pool) -> None:
    """All at once, however many they are; with free slots, none does."""
    pool.wait("1", "2", "3")
    assert pool.warm.has_room(["4", "5"], 5)
    assert pool.host.ended == []
    pool.warm.has_room(["4", "5"], 3)
    assert pool.host.ended == ["1", "2"]


def test_a_run_with_a_process_needs_no_room(pool: Pool) -> None:
    """Its reply goes to its own process, which doesn't give way to runs behind it."""
    pool.wait("1", "2")
    assert pool.warm.has_room(["1", "3"], 2)
    assert pool.host.ended == ["2"]


def test_a_taken_process_never_gives_way(pool: Pool) -> None:
    """It runs a turn, which holds the slot."""
    pool.wait("1")
    pool.warm.take("1")
    assert not pool.warm.has_room(["2"], 0)
    pool.warm.end("1")
    assert pool.host.ended == []


def test_a_process_that_is_being_ended_is_not_taken(pool: Pool) -> None:
    """A turn waits until it is gone: a session never has two processes."""
    pool.host.slow = True
    pool.wait("1")
    pool.warm.end("1")
    taken: list[object] = []
    turn = threading.Thread(target=lambda: taken.append(pool.warm.take("1")))
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
    assert pool.warm.take("1") is None
    assert pool.forgotten == ["1"]


def test_one_whose_run_has_ended_is_gone_before_its_slot_is_free(pool: Pool) -> None:
    """`finish` returns when no process is left."""
    pool.warm.open("1", REQUEST)
    pool.warm.finish("1")
    assert (pool.host.ended, pool.warm.has_process("1")) == (["1"], False)
    pool.warm.finish("1")
    assert pool.host.ended == ["1"]


def test_nothing_is_left_when_the_server_closes() -> None:
    """What waits is ended."""
    pool = Pool()
    pool.wait("1", "2")
    pool.warm.close()
    assert (pool.host.ended, pool.forgotten) == (["1", "2"], ["1", "2"])


def test_together_they_stay_below_the_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that has waited longest ends first; they are measured again, since idle processes may grow."""
    used = {1: 40, 2: 40, 3: 40}
    monkeypatch.setattr(warm_processes, "resident_memory", used.__getitem__)
    pool = Pool(memory=100)
    pool.wait("1", "2", "3")
    assert pool.host.ended == ["1"]
    used[2] = 61
    pool.now += MEMORY_SECONDS
    pool.settle()
    assert pool.host.ended == ["1", "2"]
    pool.warm.close()


def test_one_that_is_too_large_alone_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit holds for a single process, too."""
    monkeypatch.setattr(warm_processes, "resident_memory", lambda _pid: 101)
    pool = Pool(memory=100)
    pool.wait("1")
    assert pool.host.ended == ["1"]
    pool.warm.close()


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
