"""A server on one data directory whose headless turns and sticky processes do what a test says."""

import queue
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from msgspec import field

from tests.patience import PATIENCE
from turngate.contract import load
from turngate.process import Stop
from turngate_reference.data_dir import DataDir
from turngate_reference.engine.attempt import InstalledEngine
from turngate_reference.server.orchestrator import recovery, transitions
from turngate_reference.server.orchestrator.commands import Admission, Commands
from turngate_reference.server.orchestrator.decide import INTERRUPTED, Decision, TurnResult
from turngate_reference.server.orchestrator.dispatcher import Dispatcher
from turngate_reference.server.orchestrator.headless import HeadlessTurn
from turngate_reference.server.orchestrator.kept_processes import KeptProcess, KeptProcesses
from turngate_reference.server.orchestrator.kept_states import IN_TURN, Effect, KeptState
from turngate_reference.server.orchestrator.kept_turn import KeptTurn
from turngate_reference.server.orchestrator.profiles import Profiles
from turngate_reference.server.orchestrator.run_files import Records
from turngate_reference.server.orchestrator.turns import TurnRunner
from turngate_reference.server.output_schema.checker import SchemaChecker
from turngate_reference.server.output_schema.worker import data_flaw
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Outbox, Store
from turngate_reference.server.store.runs import Run, RunSession
from turngate_reference.server.transports.events import AgentText, Gone, Opened, ProcessEvent, PromptSent
from turngate_reference.states import State

SLOTS, TIMEOUT = 2, 100
NEEDS_PROCESS = "sticky_process"
ENGINE = InstalledEngine(Path("codex"), "0.169.0", load.contract("codex").at("0.169.0"))


class Host:
    """Sticky processes that do what a test says."""

    def __init__(self) -> None:
        self.listeners: dict[str, Callable[[ProcessEvent], None]] = {}
        self.prompts: list[str] = []

    def open(self, run_id: str, _request: object, listener: Callable[[ProcessEvent], None]) -> None:
        """Start a process."""
        self.listeners[run_id] = listener
        listener(Opened(1, 1.0, "t", ("app-server",)))

    def prompt(self, run_id: str, _text: str) -> None:
        """Count a prompt, which arrives."""
        self.prompts.append(run_id)
        if listener := self.listeners.get(run_id):
            listener(PromptSent())

    def decide(self, _run_id: str, _request_id: str, _option: str) -> None:
        """Record a decision."""

    def end(self, run_id: str) -> None:
        """End a process."""
        if listener := self.listeners.pop(run_id, None):
            listener(Gone(None))

    def close(self) -> None:
        """End all processes."""
        for run_id in list(self.listeners):
            self.end(run_id)


class ModelledTurns(TurnRunner, frozen=True):
    """Turns that end as a test says: those of sticky runs in a process of `Host`, all others without a process."""

    ends: dict[str, queue.SimpleQueue[Decision]] = field(default_factory=dict)
    passed: set[str] = field(default_factory=set)

    def _turn(self, run: Run, stop: Stop, outbox: Outbox) -> tuple[Decision, TurnResult]:
        kind = run.launch.interactive_profile
        with self.store.writing() as connection:
            runs.change(connection, run.run_id, profile={"kind": kind, "reason": "", "session_timeout_sec": TIMEOUT})
            run = runs.get(connection, run.run_id)
        if kind == NEEDS_PROCESS:
            turn = HeadlessTurn(outbox, run, ENGINE, {}, self._pass, self.data_flaw)
            reply = self._reply(run, outbox) if run.turn_index > 1 else None
            return KeptTurn(turn, self.kept).play(reply, stop)
        run.cwd.mkdir(exist_ok=True)  # a reply is refused without it
        transitions.note_sending(self.store, run)
        ended: queue.SimpleQueue[Decision] = queue.SimpleQueue()
        self.ends[run.run_id] = ended
        with stop.telling(ended) as already:  # type: ignore[arg-type]
            decision = None if already else ended.get(timeout=PATIENCE)
        session = RunSession("codex", "session_id", ENGINE.contract.handle.nonexistent_id, 1)
        return decision if isinstance(decision, Decision) else INTERRUPTED, TurnResult(0.0, session=session)

    def _pass(self, marker: str) -> None:
        with self.kept._changed:
            self.passed.add(marker)
            self.kept._changed.notify_all()


class ModelledServer:
    """A whole server except its engines, on one data directory."""

    def __init__(self, folder: Path, now: Callable[[], float]) -> None:
        data = DataDir(folder)
        data.make()
        self.store = Store(folder / "turngate.db")
        self.records = Records(data)
        recovery.recover(self.store, self.records)
        self.host = Host()
        self.dispatcher = Dispatcher(self.store, self.records, SLOTS)
        self.kept = KeptProcesses(
            self.host,  # type: ignore[arg-type]
            self.store,
            self.records,
            self.dispatcher.release,
            now,
        )
        engines: Any = type("Engines", (), {"find": staticmethod(lambda _name, _cwd: ENGINE)})
        admission, profiles = Admission(engines, SchemaChecker(1.0), data.runs, None, {}), cast(Profiles, None)
        self.turns = ModelledTurns(self.store, self.records, engines, profiles, self.kept, data_flaw, {})
        self.commands = Commands(self.store, self.records, engines, admission, self.dispatcher, self.kept)
        self.dispatcher.start(self.turns.run, end_kept=self.kept.end)

    def settle(self) -> None:
        """Wait until all pending work is done."""
        for process in list(self.kept._processes.values()):
            self._settle_turn(process)
        with self.kept._changed:
            self.kept._changed.notify_all()  # so that its thread looks at the clock
            assert self.kept._changed.wait_for(self._is_idle, PATIENCE)
        (newest,) = self.store.read("SELECT coalesce(max(id), 0) id FROM events")
        after = int(newest["id"])
        if runs.counts(self.store)[State.QUEUED] and len(self.holding()) < SLOTS:
            with self.store._changed:
                self.store._changed.wait_for(lambda: self._moved(after), PATIENCE)
            self.settle()
        elif not self._have_begun():
            with self.store._changed:
                assert self.store._changed.wait_for(self._have_begun, PATIENCE)
            self.settle()

    def _settle_turn(self, process: KeptProcess) -> None:
        """Wait until the turn in a process, if one uses it, has handled every event so far."""
        kept, marker = self.kept, uuid.uuid4().hex
        while marker not in self.turns.passed:
            run = runs.find(self.store, process.run_id)
            assert run
            with kept._changed:
                state = process.life.state
                if state is KeptState.SETTLED or (state not in IN_TURN and run.state is not State.RUNNING):
                    return
                before = state, process.orders
                if state in IN_TURN:
                    process.orders.put((Effect.NOTE, AgentText(marker)))
                assert kept._changed.wait_for(lambda: self._moved_on(process, marker, before), PATIENCE)  # noqa: B023

    def _moved_on(self, process: KeptProcess, marker: str, before: tuple[object, object]) -> bool:
        return marker in self.turns.passed or (process.life.state, process.orders) != before

    def _is_idle(self) -> bool:
        """Whether the thread of the kept processes has nothing to do."""
        processes, now = list(self.kept._processes.values()), self.kept.clock()
        return all(process.due > now and process.todo is None for process in processes)

    def holding(self) -> list[Run]:
        """List the runs that must hold a slot."""
        with_process = [run for run in runs.in_state(self.store, State.WAITING_USER) if run.process]
        return [*runs.in_state(self.store, State.RUNNING), *with_process]

    def _have_begun(self) -> bool:
        """Whether every process that a run needs has started."""
        running = runs.in_state(self.store, State.RUNNING)
        sticky = [run for run in running if run.launch.interactive_profile == NEEDS_PROCESS]
        return all((run.process and run.process.pid) or run.cancel_requested for run in sticky)

    def _moved(self, after: int) -> bool:
        return bool(self.store.read("SELECT 1 FROM events WHERE id > ?", after))

    def close(self) -> None:
        """Shut it down in order."""
        self.turns.closing.set()
        self.dispatcher.close()
        self.kept.close()
        self.store.close()
