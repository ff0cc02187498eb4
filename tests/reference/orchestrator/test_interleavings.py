"""Whatever happens in whatever order, a run goes only where the table lets it, is told why, and slots balance."""

import queue
import sqlite3
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.reference.house import ASK, PATIENCE, final
from turngate import load
from turngate.model import Interaction
from turngate.runtime import Stop
from turngate_reference.data_dir import DataDir
from turngate_reference.installed import InstalledEngine
from turngate_reference.orchestrator import finish, recovery, sticky
from turngate_reference.orchestrator.commands import Commands
from turngate_reference.orchestrator.decide import Decision, failed
from turngate_reference.orchestrator.dispatcher import Dispatcher
from turngate_reference.refusals import Refusal
from turngate_reference.resident import Gone, Lost, Opened, PermissionAsked, ResidentEvent, TurnEnded
from turngate_reference.states import ENDED, TRANSITIONS, RunErrorCode, State
from turngate_reference.store import runs
from turngate_reference.store.database import Store
from turngate_reference.store.runs import Run

SLOTS, TIMEOUT = 2, 100
ENGINE = InstalledEngine(Path("codex"), "0.169.0", load.contract("codex").at("0.169.0"))
QUESTION = Interaction("open_text", "?")


class Host:
    """Resident processes that do what the test says."""

    def __init__(self) -> None:
        self.listeners: dict[str, Callable[[ResidentEvent], None]] = {}
        self.prompts: list[str] = []

    def open(self, run_id: str, _request: object, listener: Callable[[ResidentEvent], None]) -> None:
        """Start one."""
        self.listeners[run_id] = listener
        listener(Opened(1, 1.0, "t"))

    def prompt(self, run_id: str, _text: str) -> None:
        """Count a prompt."""
        self.prompts.append(run_id)

    def decide(self, _run_id: str, _request_id: str, _option: str) -> None:
        """Take a decision."""

    def end(self, run_id: str) -> None:
        """End one."""
        if listener := self.listeners.pop(run_id, None):
            listener(Gone(None))

    def close(self) -> None:
        """End all."""
        for run_id in list(self.listeners):
            self.end(run_id)


class Headless:
    """Headless turns that end as the test says; sticky ones are handed on."""

    def __init__(self, world: "World") -> None:
        self.world = world
        self.ends: dict[str, queue.SimpleQueue[Decision]] = {}

    def run(self, run: Run, stop: Stop) -> bool:
        """Run one."""
        kind = run.request["interactive_profile"]
        with self.world.store.writing() as connection:
            runs.change(connection, run.run_id, profile={"kind": kind, "reason": "", "session_timeout_sec": TIMEOUT})
            run = runs.get(connection, run.run_id)
        if kind == "sticky_process":
            self.world.sticky.begin(sticky.Kept(run, ENGINE, "p", lambda _text: None), None)  # type: ignore[arg-type]
            return False
        ended: queue.SimpleQueue[Decision] = queue.SimpleQueue()
        self.ends[run.run_id] = ended
        with stop.telling(ended) as already:  # type: ignore[arg-type]
            decision = None if already else ended.get(timeout=PATIENCE)
        if not isinstance(decision, Decision):
            decision = failed(RunErrorCode.ORCHESTRATOR_RESTART_INTERRUPTED, "")
        session = {"handle_value": ENGINE.contract.handle.dead}
        finish.finish(self.world.store, run, decision, finish.Came(0.0, session=session))
        return True


class World:
    """All of a server but its engines, over one data directory."""

    def __init__(self, folder: Path, now: Callable[[], float]) -> None:
        data = DataDir(folder)
        data.make()
        self.store = Store(folder / "turngate.db")
        recovery.recover(self.store)
        self.host, self.headless = Host(), Headless(self)
        self.dispatcher = Dispatcher(self.store, SLOTS)
        self.sticky = sticky.Sticky(
            self.store, self.host, self.dispatcher.release, lambda *_: None, now  # type: ignore[arg-type]
        )  # fmt: skip
        engines: Any = type("Engines", (), {"find": staticmethod(lambda _name: ENGINE)})
        self.commands = Commands(self.store, data, engines, self.dispatcher, self.sticky, None)
        self.dispatcher.start(self.headless)

    def settle(self) -> None:
        """Wait until nothing is to be done any more that nobody asked for."""
        done = threading.Event()
        self.sticky._inbox.put(done.set)
        assert done.wait(PATIENCE)
        (newest,) = self.store.read("SELECT coalesce(max(id), 0) id FROM events")
        after = int(newest["id"])
        if runs.counts(self.store)[State.QUEUED] and len(self.holding()) < SLOTS:
            with self.store._changed:
                self.store._changed.wait_for(lambda: self._moved(after), PATIENCE)
            self.settle()

    def holding(self) -> list[Run]:
        """List the runs that need a slot."""
        with_process = [run for run in runs.in_state(self.store, State.WAITING_USER) if run.process]
        return [*runs.in_state(self.store, State.RUNNING), *with_process]

    def _moved(self, after: int) -> bool:
        return bool(self.store.read("SELECT 1 FROM events WHERE id > ?", after))

    def close(self) -> None:
        """End it in order."""
        self.dispatcher.close()
        self.sticky.close()
        self.store.close()


class Interleavings(RuleBasedStateMachine):
    """What may happen to runs."""

    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.TemporaryDirectory()
        self.now, self.lives = 0.0, 0
        self.accepted: dict[str, int] = {}
        self.world = self._world()

    def _world(self) -> World:
        self.lives += 1
        return World(Path(self.root.name, str(self.lives)), lambda: self.now)

    def teardown(self) -> None:
        """Cancel what is left: every run ends, and every slot is free."""
        for run in self._runs():
            with suppress(Refusal):
                self.world.commands.cancel(run.run_id)
            self._until(run.run_id, State.RUNNING)
        assert self.world.dispatcher.wait_until_free(PATIENCE)
        self.world.settle()
        self._check_ended()
        self.world.close()
        self.root.cleanup()

    def _check_ended(self) -> None:
        for run in self._runs():
            assert run.state in ENDED, run
            assert (run.error is not None) == (run.state is State.FAILED)
            assert (run.process, run.pending_interaction_id if run.state is State.FAILED else None) == (None, None)

    def _runs(self) -> list[Run]:
        return runs.page(self.world.store, limit=200)

    def _one(self, index: int, *states: State, kind: str | None = None) -> Run | None:
        self.world.settle()
        found = [run for run in self._runs() if run.state in states]
        found = [run for run in found if kind in (None, run.request["interactive_profile"])]
        return found[index % len(found)] if found else None

    @rule(kind=st.sampled_from(["resumable", "sticky_process"]))
    def create(self, kind: str) -> None:
        """Create a run."""
        request = {"engine": "codex", "prompt": "p", "execution_mode": "interactive", "interactive_profile": kind}
        answer = self.world.commands.create(request | {"session_timeout_sec": TIMEOUT}, None)
        self.accepted[answer["run_id"]] = 1

    @rule(index=st.integers(0, 9), how=st.sampled_from(["ask", "final", "fail"]))
    def turn_ends(self, index: int, how: str) -> None:
        """A turn ends."""
        run = self._one(index, State.RUNNING)
        if run is None:
            return
        if listener := self.world.host.listeners.get(run.run_id):
            text = {"ask": ASK, "final": final(x=1), "fail": None}[how]
            listener(TurnEnded(text, None if text else "refused", "t", declined=False))
        elif ended := self.world.headless.ends.pop(run.run_id, None):
            asked = Decision(State.WAITING_USER, interaction=QUESTION)
            good = Decision(State.SUCCEEDED, final_data={})
            ended.put({"ask": asked, "final": good, "fail": failed(RunErrorCode.ENGINE_FAILED, "")}[how])
            self._until(run.run_id, State.RUNNING)

    @rule(index=st.integers(0, 9))
    def engine_asks(self, index: int) -> None:
        """A resident engine asks before it acts."""
        run = self._one(index, State.RUNNING, kind="sticky_process")
        if run and (listener := self.world.host.listeners.get(run.run_id)):
            listener(PermissionAsked("1", "write?", ("accept", "decline"), {}))

    @rule(index=st.integers(0, 9), stale=st.booleans(), late=st.booleans())
    def reply(self, index: int, *, stale: bool, late: bool) -> None:
        """A reply comes, perhaps to another question, perhaps at the very deadline."""
        run = self._one(index, State.WAITING_USER)
        if run is None:
            return
        if late:
            self.now += TIMEOUT
        pending = "other" if stale else run.pending_interaction_id
        try:
            self.world.commands.reply(run.run_id, {"interaction_id": pending, "response": "accept"}, None)
        except Refusal as refused:
            assert stale or late, refused  # noqa: PT017 - it may be refused or not
        else:
            question = runs.question(self.world.store, run.pending_interaction_id or "")
            self.accepted[run.run_id] += bool(question and question.request_id is None)

    @rule(index=st.integers(0, 9))
    def cancel(self, index: int) -> None:
        """Somebody cancels."""
        if run := self._one(index, State.QUEUED, State.RUNNING, State.WAITING_USER):
            self.world.commands.cancel(run.run_id)
            self._until(run.run_id, State.RUNNING, State.QUEUED, State.WAITING_USER)

    @rule(index=st.integers(0, 9))
    def process_dies(self, index: int) -> None:
        """A resident process dies."""
        run = self._one(index, State.RUNNING, State.WAITING_USER, kind="sticky_process")
        if run and (listener := self.world.host.listeners.pop(run.run_id, None)):
            listener(Lost("it died"))
            listener(Gone(-9))

    @rule(seconds=st.sampled_from([1, TIMEOUT // 2, TIMEOUT + 1]))
    def time_passes(self, seconds: int) -> None:
        """Time passes, for timers; the wall clock of the store stands."""
        self.now += seconds
        self.world.settle()

    @precondition(lambda self: self.lives < 3)
    @rule(crash=st.booleans())
    def restart(self, *, crash: bool) -> None:
        """The server is started again, after an end in order or over what a crash left."""
        self.world.settle()
        copy = Path(self.root.name, str(self.lives + 1))
        copy.mkdir()
        if not crash:
            self.world.close()
        with (
            closing(sqlite3.connect(Path(self.root.name, str(self.lives), "turngate.db"))) as old,
            closing(sqlite3.connect(copy / "turngate.db")) as new,
        ):
            old.backup(new)
        if crash:
            self.world.close()
        before = {run.run_id: run for run in self._snapshot(copy)} if crash else {}
        self.world = self._world()
        for run_id, run in before.items():
            self._check_recovered(run, runs.find(self.world.store, run_id))

    def _snapshot(self, folder: Path) -> list[Run]:
        store = Store(folder / "turngate.db")
        found = runs.page(store, limit=200)
        store.close()
        return found

    def _check_recovered(self, before: Run, after: Run | None) -> None:
        assert after
        sticky_run = before.request["interactive_profile"] == "sticky_process"
        if before.state is State.RUNNING:
            assert (after.error or {}).get("code") == "ORCHESTRATOR_RESTART_INTERRUPTED" or before.cancel_requested
        elif before.state is State.WAITING_USER and sticky_run:
            assert (after.error or {}).get("code") == "INTERACTION_PROCESS_LOST"
        elif before.state is State.WAITING_USER:
            assert after.state is State.WAITING_USER

    def _until(self, run_id: str, *left: State) -> None:
        """Wait until a run has left these states."""
        after = 0
        while (run := runs.find(self.world.store, run_id)) and run.state in left:
            assert self.world.store.wait_for_event(run_id, after, PATIENCE), run
            after = runs.events(self.world.store, run_id, after, 1000)[-1].id

    @invariant()
    def the_table_holds(self) -> None:
        """Every step of every run is one of the table."""
        self.world.settle()
        for run in self._runs():
            told = [e.data["state"] for e in runs.events(self.world.store, run.run_id, 0, 1000) if e.type == "state"]
            path = [State(state) for state in told]
            assert path[-1] is run.state
            assert all(step in TRANSITIONS for step in pairwise(path))

    @invariant()
    def slots_balance(self) -> None:
        """A slot is held for what runs and for what waits with a process, and for nothing else."""
        self.world.settle()
        assert len(self.world.holding()) <= self.world.dispatcher.held <= SLOTS

    @invariant()
    def nothing_is_prompted_twice(self) -> None:
        """A resident process gets its first prompt and one for each reply that was taken, no more."""
        for run_id, count in self.accepted.items():
            assert self.world.host.prompts.count(run_id) <= count


Interleavings.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    # threads make no replay the same, so nothing is shrunk
    phases=(Phase.explicit, Phase.generate),
    database=None,
)


TestInterleavings = Interleavings.TestCase
