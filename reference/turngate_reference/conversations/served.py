"""Continues runs of `turngate serve` at a terminal. The store decides which reply wins, as it does for HTTP replies."""

import os
import sqlite3
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from msgspec import Struct, structs

from turngate import EngineContract, Invocation, MachineError, Mode, NotFoundError, Stop, UsageError
from turngate.argv.environment import relocated
from turngate.process.family import end_orphans
from turngate_reference.conversations.server_client import send_reply
from turngate_reference.data_dir import DataDir
from turngate_reference.engine.attempt import Attempt, InstalledEngine, OnOutput, contract_for, find_engine
from turngate_reference.engine.session import ObstacleError
from turngate_reference.handle_record import HandleRecord
from turngate_reference.server.orchestrator import transitions
from turngate_reference.server.orchestrator.continuation import engine_to_resume, with_session
from turngate_reference.server.orchestrator.decide import TurnResult, failed
from turngate_reference.server.orchestrator.headless import TurnFailed, TurnWork, command
from turngate_reference.server.orchestrator.owner import Owner
from turngate_reference.server.orchestrator.recovery import noted_processes, settle_terminal_turn
from turngate_reference.server.orchestrator.run_files import Records, lost_workspace, record_of
from turngate_reference.server.orchestrator.turn_states import Plan, Played, Prepared
from turngate_reference.server.orchestrator.workspace_files import snapshot
from turngate_reference.server.output_schema.checker import DATA_SECONDS, SchemaChecker
from turngate_reference.server.store import database, runs
from turngate_reference.server.store.database import DatabaseGoneError, Store
from turngate_reference.server.store.runs import ProcessNote, Run
from turngate_reference.states import ENDED, RunErrorCode, State

# the contract for a turn: of the engine, for the mode and the text, in a chosen workspace or else the run's own
Safe = Callable[[EngineContract, Mode, str, Path | None, Path, Mapping[str, str | None]], EngineContract]
_INTERRUPTED = failed(RunErrorCode.TERMINAL_INTERRUPTED, "turngate resume was interrupted during the turn")


class ServedRun(Struct, frozen=True):
    """A run that can be continued; the caller holds the lock of its handle."""

    store: Store
    records: Records
    run: Run

    @property
    def waits(self) -> bool:
        """Whether the run waits for its user; if not, it has ended."""
        return self.run.state is State.WAITING_USER

    @property
    def is_kept(self) -> bool:
        """Whether `turngate serve` keeps the process of a run that waits, so that only it can run the next turn."""
        return self.waits and self.run.is_sticky

    def record_after(self, record: HandleRecord) -> HandleRecord:
        """Return the record of a run that has ended: `record` if a terminal has continued the run since."""
        return record if record.turns > self.run.turn_index else record_of(self.run, self.run.state, self.run.session)

    def reply(
        self, message: str, on_text: Callable[[str], None], on_output: OnOutput, stop: Stop, safe: Safe
    ) -> tuple[HandleRecord, Attempt, str, str]:
        """Reply to the open question and run the next turn; TurngateError before the claim changes nothing.

        Return the record after the turn, the engine's attempt, a description of the run's new state, and why the turn
        could not be saved, if so. `safe` returns the contract for the turn, or refuses it.
        """
        if not message.strip():
            raise UsageError("the reply is empty", f"{self.run.handle} still waits for one")
        try:
            engine = engine_to_resume(self.run, lambda name, cwd: find_engine(name, self.records.data, stop, cwd))
        except ObstacleError as obstacle:
            if obstacle.is_final:
                raise self._lost(message, obstacle) from obstacle
            raise UsageError(obstacle.detail, f"{obstacle.hint}; {self._unsent}") from obstacle
        contract = safe(
            engine.contract, self.run.execution_mode, message, self.run.workspace, self.run.cwd, self.run.locations
        )
        engine = structs.replace(engine, contract=contract)
        try:
            built = command(self.run, engine, message)
        except TurnFailed as early:
            raise UsageError(str(early), self._unsent) from early
        claimed = self._claimed(message)
        self.records.keep(claimed, State.RUNNING, claimed.session)
        done = list[Attempt]()
        with closing(SchemaChecker(DATA_SECONDS)) as checker:
            turn = TerminalTurn(
                checker.data_flaw,
                _INTERRUPTED,
                on_output,
                engine=engine,
                env=relocated(os.environ, claimed.locations),
                built=built,
                left=self.run.process,
                on_text=on_text,
                done=done,
            )
            owner = Owner(
                self.store,
                self.records,
                turn,
                gives_up=lambda error: isinstance(error, DatabaseGoneError) or stop.is_set(),
                chore=partial(self._end_if_unwanted, stop),
            )
            written = owner.play(claimed, stop).written
        unsaved = "" if written else "the database could not be written"
        if written is not None and not written.counts:
            unsaved = "turngate serve took this terminal for dead and ended the run"
        ended = runs.find(self.store, claimed.run_id) or claimed
        if not done:
            raise UsageError(self._unsent_news(ended), _see(self.records.data))
        return record_of(ended, ended.state, ended.session), done[0], _news(ended), unsaved

    def send(self, message: str) -> tuple[HandleRecord, str]:
        """Send the reply to the server that keeps the run's process; TurngateError: it didn't take it.

        Return the record since, and the text as it was sent: a reply that differs from an option only in case is sent
        as that option.
        """
        run, data = self.run, self.records.data
        asked = runs.question(self.store, run.pending_interaction_id or "")
        if asked is None:
            raise UsageError(f"the question of {run.handle} was already answered or closed", _see(data))
        options = [option for option in asked.question.options if option.casefold() == message.strip().casefold()]
        text = message if message in options or len(options) != 1 else options[0]
        send_reply(data, run.links["reply"], asked.interaction_id, text)
        taken = runs.find(self.store, run.run_id) or run
        return record_of(taken, taken.state, taken.session), text

    def _end_if_unwanted(self, stop: Stop) -> None:
        """Set `stop` if the run has been canceled or ended."""
        with suppress(sqlite3.Error):
            if not runs.is_wanted(self.store, self.run.run_id):
                stop.set()

    @property
    def _unsent(self) -> str:
        return f"nothing was sent, and {self.run.handle} still waits for a reply"

    def _claimed(self, message: str) -> Run:
        """Return the run with its next turn claimed; UsageError if somebody else was first."""
        claimed = transitions.claim_at_terminal(self.store, self.run, message, uuid.uuid4().hex)
        if claimed is None:
            what = f"the question of {self.run.handle} was already answered or closed"
            raise UsageError(what, _see(self.records.data))
        return claimed

    def _lost(self, message: str, obstacle: ObstacleError) -> UsageError:
        """Take a reply that can't be sent any more, since the session is gone; the run fails and keeps it."""
        claimed = self._claimed(message)
        decision = failed(obstacle.code, f"before the resume: {obstacle.detail}")
        if decision.error is not None:
            decision = structs.replace(decision, error=with_session(claimed, decision.error))
        transitions.end_turn(self.store, self.records, claimed, decision, TurnResult(0.0), is_sent=False)
        return UsageError(_news(runs.find(self.store, claimed.run_id) or claimed), _see(self.records.data))

    def _unsent_news(self, run: Run) -> str:
        """Describe a run whose turn was not started."""
        unsent = runs.unsent_reply(self.store, run.run_id)
        return f"{unsent.detail}; {self._unsent}" if unsent and run.state is State.WAITING_USER else _news(run)


class TerminalTurn(TurnWork, frozen=True, kw_only=True):
    """A turn at the terminal: `built` is its command, and `done` gets what its engine did.

    `left` is the note of processes that must end first.
    """

    engine: InstalledEngine
    env: Mapping[str, str]
    built: Invocation
    left: ProcessNote | None
    on_text: Callable[[str], None]
    done: list[Attempt]

    def prepare(self, run: Run, _reply: str | None, _kept: InstalledEngine | None) -> Prepared:
        """End what would use the session, too."""
        end_orphans(noted_processes(self.left))
        return Prepared(Plan(run, self.engine, self.env, snapshot(run, with_texts=True), command=self.built))

    def play(
        self,
        plan: Plan,
        built: Invocation,
        stop: Stop,
        on_start: Callable[[int, float | None], None],
        on_text: Callable[[str], None],
    ) -> Played:
        """Show the agent's texts, too."""

        def show(text: str) -> None:
            self.on_text(text)
            on_text(text)

        played = TurnWork.play(self, plan, built, stop, on_start, show)
        self.done.append(played.done)
        return played


@contextmanager
def opened(data: DataDir, record: HandleRecord) -> Iterator[ServedRun]:
    """Open the run of a record; TurngateError says why it can't be continued. The caller holds its lock."""
    with database.opened(data.database) as store:
        records = Records(data)
        # nobody else holds the lock, so a terminal that ran it is dead
        settle_terminal_turn(store, records, record.run_id)
        run = runs.find(store, record.run_id)
        if run is None:
            raise NotFoundError(f"{data.database} has no run {record.run_id}", "was it created by another server?")
        if why := _reason_against(store, run):
            raise UsageError(f"{run.handle} can't be continued: {why}", _see(data))
        # a session has one process at a time, and that of a sticky run may still be ending
        if run.state in ENDED and (left := end_orphans(noted_processes(run.process))):
            what = f"the process of {run.handle} still runs and can't be stopped: {', '.join(map(str, left))}"
            raise MachineError(what, "end it, then try again")
        yield ServedRun(store, records, run)


def _reason_against(store: Store, run: Run) -> str:
    """Return why a terminal may not continue a run; empty if it may."""
    if run.state is State.QUEUED:
        return "its next turn is queued in turngate serve"
    if run.state is State.RUNNING:
        return "turngate serve is running its turn, or was killed while it did"
    if run.is_sticky and run.state in ENDED:
        sticky = contract_for(run.engine, run.engine_version).sticky
        if not sticky.keeps_session_id or sticky.private_store:
            return f"its session ended with its sticky process: {run.engine} can't resume it by its id"
    if run.state in ENDED and run.workspace and (other := runs.unfinished_in(store, run.workspace)):
        return f"the unfinished run {other} is using {run.workspace}"
    return lost_workspace(run) or ""


def _see(data: DataDir) -> str:
    return f"list its state: {data.command('handles')}"


def _news(run: Run) -> str:
    """Describe the state of a run after a turn."""
    if run.state is State.WAITING_USER:
        return f"run {run.run_id} is waiting for the next reply"
    ended = {State.SUCCEEDED: "has succeeded", State.FAILED: "has failed", State.CANCELED: "was canceled"}
    why = f": {run.error.code}: {run.error.detail}" if run.error else ""
    if run.error and run.error.can_continue is True:
        why += "; the session is intact" if run.error.session_intact else ""
        why += f"; the run can go on: POST {run.links['continue']}"
    return f"run {run.run_id} {ended.get(run.state, f'is {run.state}')}{why}"
