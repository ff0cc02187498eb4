"""A server on one data directory whose headless turns and sticky processes do what a test says."""

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE
from turngate.contract import load
from turngate.process import Stop
from turngate_reference.data_dir import DataDir
from turngate_reference.engine.lookup import InstalledEngine
from turngate_reference.server.orchestrator import recovery, transitions
from turngate_reference.server.orchestrator.admission import Admission
from turngate_reference.server.orchestrator.commands import Commands
from turngate_reference.server.orchestrator.decide import INTERRUPTED, Decision, TurnResult
from turngate_reference.server.orchestrator.dispatcher import Dispatcher
from turngate_reference.server.orchestrator.run_files import Records
from turngate_reference.server.orchestrator.sticky_runs import StickyRuns
from turngate_reference.server.orchestrator.warm_processes import WarmProcesses
from turngate_reference.server.output_schema.checker import SchemaChecker
from turngate_reference.server.output_schema.worker import data_flaw
from turngate_reference.server.sticky.events import Gone, Opened, StickyEvent
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.runs import Run
from turngate_reference.states import State

SLOTS, TIMEOUT = 2, 100
STICKY = "sticky_process"
ENGINE = InstalledEngine(Path("codex"), "0.169.0", load.contract("codex").at("0.169.0"))


class Host:
    """Sticky processes that do what a test says."""

    def __init__(self) -> None:
        self.listeners: dict[str, Callable[[StickyEvent], None]] = {}
        self.prompts: list[str] = []

    def open(self, run_id: str, _request: object, listener: Callable[[StickyEvent], None]) -> None:
        """Start a process."""
        self.listeners[run_id] = listener
        listener(Opened(1, 1.0, "t", ("app-server",)))

    def prompt(self, run_id: str, _text: str) -> None:
        """Count a prompt."""
        self.prompts.append(run_id)

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


class Headless:
    """Headless turns that end as a test says; turns of sticky runs are handed over."""

    def __init__(self, world: "ModelledServer") -> None:
        self.world = world
        self.ends: dict[str, queue.SimpleQueue[Decision]] = {}

    def run(self, run: Run, stop: Stop) -> bool:
        """Run a turn."""
        kind = run.launch.interactive_profile
        with self.world.store.writing() as connection:
            runs.change(connection, run.run_id, profile={"kind": kind, "reason": "", "session_timeout_sec": TIMEOUT})
            run = runs.get(connection, run.run_id)
        if kind == STICKY:
            self.world.sticky.begin(run, ENGINE, {})
            return False
        ended: queue.SimpleQueue[Decision] = queue.SimpleQueue()
        self.ends[run.run_id] = ended
        with stop.telling(ended) as already:  # type: ignore[arg-type]
            decision = None if already else ended.get(timeout=PATIENCE)
        session = {"handle_value": ENGINE.contract.handle.nonexistent_id}
        result = TurnResult(0.0, session=session)
        decision = decision if isinstance(decision, Decision) else INTERRUPTED
        transitions.end_turn(self.world.store, self.world.records, run, decision, result)
        return True


class ModelledServer:
    """A whole server except its engines, on one data directory."""

    def __init__(self, folder: Path, now: Callable[[], float]) -> None:
        data = DataDir(folder)
        data.make()
        self.store = Store(folder / "turngate.db")
        self.records = Records(data)
        recovery.recover(self.store, self.records)
        self.host, self.headless = Host(), Headless(self)
        self.dispatcher = Dispatcher(self.store, self.records, SLOTS)
        self.sticky = StickyRuns(
            self.store,
            self.records,
            self.host,  # type: ignore[arg-type]
            self.dispatcher.release,
            lambda *_: None,
            data_flaw,
            now,
        )
        self.warm = WarmProcesses(self.host, lambda *_: None, self.dispatcher.kick)  # type: ignore[arg-type]
        engines: Any = type("Engines", (), {"find": staticmethod(lambda _name: ENGINE)})
        admission = Admission(engines, SchemaChecker(1.0), data.runs, None, {})
        self.commands = Commands(self.store, self.records, engines, admission, self.dispatcher, self.sticky, self.warm)
        self.dispatcher.start(self.headless.run)

    def settle(self) -> None:
        """Wait until all pending work is done."""
        # actions that are due run after the one that woke the thread, and may queue more
        for _ in range(3):
            for sticky in list(self.sticky._runs.values()):
                with suppress(RuntimeError):  # its process is gone
                    sticky.judge.submit(lambda: None).result(PATIENCE)
            done = threading.Event()
            self.sticky._inbox.put("", done.set)
            assert done.wait(PATIENCE)
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

    def holding(self) -> list[Run]:
        """List the runs that must hold a slot."""
        with_process = [run for run in runs.in_state(self.store, State.WAITING_USER) if run.process]
        return [*runs.in_state(self.store, State.RUNNING), *with_process]

    def _have_begun(self) -> bool:
        """Whether every process that a run needs has started."""
        sticky = [run for run in runs.in_state(self.store, State.RUNNING) if run.launch.interactive_profile == STICKY]
        return all((run.process and run.process.pid) or run.cancel_requested for run in sticky)

    def _moved(self, after: int) -> bool:
        return bool(self.store.read("SELECT 1 FROM events WHERE id > ?", after))

    def close(self) -> None:
        """Shut it down in order."""
        self.dispatcher.close()
        self.sticky.close()
        self.store.close()
