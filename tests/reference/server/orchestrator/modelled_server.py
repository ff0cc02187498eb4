"""A server on one data directory without threads, whose engines do what a test says."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import field
from msgspec.structs import replace

from turngate import Interaction, Invocation, Mode
from turngate.contract import load
from turngate.process.execution import Stop
from turngate_reference.data_dir import DataDir
from turngate_reference.engine.attempt import InstalledEngine
from turngate_reference.server.orchestrator import recovery
from turngate_reference.server.orchestrator.commands import Admission, Commands
from turngate_reference.server.orchestrator.decide import INTERRUPTED, Decision, TurnResult, failed
from turngate_reference.server.orchestrator.headless import TurnFailed, TurnWork
from turngate_reference.server.orchestrator.live_run import LiveRun
from turngate_reference.server.orchestrator.owner import Owner
from turngate_reference.server.orchestrator.run_files import Records
from turngate_reference.server.orchestrator.turn_states import (
    Answered,
    Failed,
    Judged,
    Plan,
    Played,
    Prepared,
    TurnState,
)
from turngate_reference.server.orchestrator.workspace_files import Snapshot
from turngate_reference.server.output_schema.checker import SchemaChecker
from turngate_reference.server.output_schema.worker import data_flaw
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.runs import Run, RunProfile, RunSession
from turngate_reference.server.transports.events import Gone, Host, Lost, Opened, OpenRequest, ProcessEvent, PromptSent
from turngate_reference.states import Cause, RunErrorCode, State

SLOTS, TIMEOUT = 2, 100
NEEDS_PROCESS = "sticky_process"
ENGINE = InstalledEngine(Path("codex"), "0.169.0", load.contract("codex").at("0.169.0"))
QUESTION = Interaction("open_text", "?")
ENDS = {
    "ask": Decision(Cause.ASKED, interaction=QUESTION),
    "final": Decision(Cause.FINISHED, final_data={}),
    "fail": failed(RunErrorCode.ENGINE_FAILED, ""),
    "cut": failed(RunErrorCode.TERMINAL_INTERRUPTED, ""),
}
UNSENT = TurnFailed(RunErrorCode.ENGINE_UNSAFE, "it was not guarded", unsent=True)


class ModelledHost(Host):
    """Kept processes that do what a test says; `quick`: each is ready, and gone, at once.

    `gone_at_prompt`: the next prompt comes too late.
    """

    def __init__(self, *, quick: bool = True) -> None:
        self.listeners: dict[str, Callable[[ProcessEvent], None]] = {}
        self.prompts: list[str] = []
        self.ended: list[str] = []
        self.quick, self.gone_at_prompt = quick, False

    def open(self, run_id: str, _request: object, listener: Callable[[ProcessEvent], None]) -> None:
        """Start a process."""
        assert run_id not in self.listeners, "a run has one process"
        self.listeners[run_id] = listener
        if self.quick:
            listener(Opened(1, 1.0, "t", ("app-server",)))

    def prompt(self, run_id: str, _text: str) -> None:
        """Count a prompt, which arrives unless the process is gone."""
        if self.gone_at_prompt:
            self.tell(run_id, Lost("it exited"))
            self.gone(run_id)
            return
        self.prompts.append(run_id)
        self.tell(run_id, PromptSent())

    def decide(self, _run_id: str, _request_id: str, _option: str) -> None:
        """Pass a decision on."""

    def end(self, run_id: str) -> None:
        """End a process."""
        self.ended.append(run_id)
        if self.quick:
            self.gone(run_id)

    def tell(self, run_id: str, event: ProcessEvent) -> None:
        """Report something of a process, if there is one."""
        if listener := self.listeners.get(run_id):
            listener(event)

    def gone(self, run_id: str) -> None:
        """Let a process be gone."""
        if listener := self.listeners.pop(run_id, None):
            listener(Gone(None))


class ModelledWork(TurnWork, frozen=True):
    """Turns that need nothing; `ends` says how those in a process of their own end, else they are interrupted."""

    ends: dict[str, Decision | TurnFailed] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)

    def prepare(self, run: Run, _reply: str | None, kept: InstalledEngine | None) -> Prepared:
        """Return a plan."""
        if kept is not None:
            return Prepared(Plan(run, kept, {}, Snapshot(), text="go on"))
        profile = RunProfile(run.launch.interactive_profile or "resumable", "", TIMEOUT)
        run = replace(run, profile=profile)
        run.cwd.mkdir(exist_ok=True)  # a reply is refused without it
        plan = Plan(run, ENGINE, {}, Snapshot(), settled={"profile": profile})
        if run.is_sticky:
            tag = run.process.tag if run.process else ""
            opens = OpenRequest(ENGINE.executable, ENGINE.contract, run.cwd, {}, Mode.INTERACTIVE, tag, run.cwd)
            return Prepared(replace(plan, text="go", opens=opens))
        return Prepared(replace(plan, command=Invocation(ENGINE.contract, Mode.INTERACTIVE, ("exec",), b"", (), None)))

    def play(
        self,
        plan: Plan,
        _built: Invocation,
        _stop: Stop,
        on_start: Callable[[int, float | None], None],
        _on_text: Callable[[str], None],
    ) -> Played:
        """Start a process, which ends at once."""
        end = self.ends.pop(plan.run.run_id, INTERRUPTED)
        if isinstance(end, TurnFailed):
            raise end
        self.started.append(plan.run.run_id)
        on_start(1, None)
        done: Any = end
        return Played(done)

    def judge(self, run: Run, plan: Plan | None, event: Played | Answered | Failed, result: TurnResult) -> Judged:
        """Take the end of a turn as it was said."""
        if isinstance(event, Played):
            done: Any = event.done
            session = RunSession("codex", "session_id", ENGINE.contract.handle.nonexistent_id, 1)
            return Judged(done, replace(result, session=session))
        return TurnWork.judge(self, run, plan, event, result)


class ModelledServer:
    """A whole server except its engines, on one data directory; `jobs` are those of its threads, by handle.

    `faults` counts, for each place, the calls that fail from now on.
    """

    def __init__(self, folder: Path, now: Callable[[], float], *, quick: bool = True) -> None:
        data = DataDir(folder)
        data.make()
        self.store = Store(folder / "turngate.db")
        self.records = Records(data)
        recovery.recover(self.store, self.records)
        self.host, self.work, self.jobs = (
            ModelledHost(quick=quick),
            ModelledWork(data_flaw),
            dict[str, Callable[[], None]](),
        )
        self.faults = dict[str, int]()
        for thing, name, error in (
            (self.store, "writing", sqlite3.OperationalError("database is locked")),
            (self.host, "open", RuntimeError("no loop")),
            (self.host, "prompt", RuntimeError("no loop")),
            (self, "start_thread", RuntimeError("can't start new thread")),
            (self, "observe", ZeroDivisionError()),
        ):
            setattr(thing, name, self._failing(getattr(thing, name), name, error))
        self.owner = Owner(
            self.store,
            self.records,
            self.work,
            self.host,
            SLOTS,
            observe=self.observe,
            clock=now,
            start_thread=self.start_thread,
        )
        engines: Any = type("Engines", (), {"find": staticmethod(lambda _name, _cwd: ENGINE)})
        admission = Admission(engines, SchemaChecker(1.0), data.runs, None, {})
        self.commands = Commands(self.store, self.records, admission, self.owner)

    def _failing(self, call: Callable[..., Any], name: str, error: Exception) -> Callable[..., Any]:
        def tried(*args: Any) -> Any:
            if self.faults.get(name, 0) > 0:
                self.faults[name] -= 1
                raise error
            return call(*args)

        return tried

    def observe(self, _engine: str, _outcome: str, _seconds: float) -> None:
        """Count nothing."""

    def start_thread(self, name: str, job: Callable[[], None]) -> None:
        """Keep the job of a thread until it is asked for."""
        handle = name.removeprefix("turngate-")
        assert handle not in self.jobs, "a run has one job at a time"
        self.jobs[handle] = job

    def live(self, handle: str) -> LiveRun:
        """Return the run of a handle that holds a slot."""
        (live,) = (live for live in self.owner._live.values() if live.run.handle == handle)
        return live

    def is_playing(self, handle: str) -> bool:
        """Whether the job of a run ends when its engine ends."""
        live = self.live(handle)
        return live.turn_state is TurnState.PLAYING and not live.stop.is_set()

    def settle(self) -> None:
        """Do all that is due, and all jobs that don't wait for an engine."""
        self.owner.drain()
        while ready := [handle for handle in self.jobs if not self.is_playing(handle)]:
            self.jobs.pop(ready[0])()
            self.owner.drain()

    def end_turn(self, run: Run, how: Decision | TurnFailed) -> None:
        """End a turn that has a process of its own."""
        self.work.ends[run.run_id] = how
        self.jobs.pop(run.handle)()
        self.settle()

    def holding(self) -> list[Run]:
        """List the runs that must hold a slot."""
        with_process = [run for run in runs.in_state(self.store, State.WAITING_USER) if run.process]
        running = runs.in_state(self.store, State.RUNNING)
        return [*(run for run in running if not (run.process and run.process.terminal)), *with_process]

    def close(self) -> None:
        """Shut it down in order."""
        self.owner.close()
        self.settle()
        self.store.close()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let every write fail while the block runs."""
        self.faults["writing"] = 10**9
        yield
        self.faults["writing"] = 0
