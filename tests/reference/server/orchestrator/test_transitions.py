"""A property test: whatever happens, runs take only allowed transitions, say why they failed, and free their slots."""

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.reference.commanded import created, replied
from tests.reference.server.orchestrator.modelled_server import (
    ENDS,
    NEEDS_PROCESS,
    QUESTION,
    SLOTS,
    TIMEOUT,
    UNSENT,
    ModelledServer,
    ModelledWork,
)
from tests.reference.server_env import ASK, final
from turngate.process.execution import Stop
from turngate_reference import handle_record
from turngate_reference.data_dir import locked
from turngate_reference.server.orchestrator import recovery, transitions
from turngate_reference.server.orchestrator.commands import Commands
from turngate_reference.server.orchestrator.decide import TurnResult
from turngate_reference.server.orchestrator.owner import Owner
from turngate_reference.server.output_schema.worker import data_flaw
from turngate_reference.server.requests import ApiError, ContinueRequest
from turngate_reference.server.store import runs
from turngate_reference.server.store.events import (
    StateEvent,
)
from turngate_reference.server.store.runs import Run
from turngate_reference.server.transports.events import Gone, Lost, PermissionAsked, TurnEnded
from turngate_reference.states import ENDED, TRANSITIONS, RunErrorCode, State


class Interleavings(RuleBasedStateMachine):
    """What may happen to runs; `expected` holds the codes with which a run must have failed by now.

    `since` says when the deadline of a sticky run's latest step began.
    """

    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.TemporaryDirectory()
        self.now, self.lives, self.jump = 0.0, 0, timedelta()
        self.accepted: dict[str, int] = {}
        self.expected: dict[str, set[str]] = {}
        self.since: dict[str, tuple[object, float]] = {}
        self.clock = mock.patch.object(runs, "now", self._wall)
        self.clock.start()
        self.world = self._world()

    def _wall(self) -> str:
        return (datetime.now(UTC) + self.jump).isoformat(timespec="milliseconds")

    def _world(self) -> ModelledServer:
        self.lives += 1
        return ModelledServer(Path(self.root.name, str(self.lives)), lambda: self.now)

    def teardown(self) -> None:
        """Cancel the remaining runs: every run ends, and every slot is freed."""
        for run in self._runs():
            with suppress(ApiError):
                self.world.commands.cancel(run.run_id)
        self.world.settle()
        assert not self.world.owner.held
        assert all(run.state in ENDED for run in self._runs())
        self.ended_runs_say_why()
        self.world.close()
        self.clock.stop()
        self.root.cleanup()

    def _fails(self, run: Run, code: RunErrorCode) -> None:
        """Expect a run to fail with this code."""
        self.expected[run.run_id] = {code}

    def _has_asked(self, run: Run) -> bool:
        return bool(self.world.store.read("SELECT 1 FROM interactions WHERE run_id = ?", run.run_id))

    def _pass(self, seconds: float) -> None:
        """Advance the clock; runs whose deadline passes fail."""
        self.world.settle()
        self._look()
        self.now += seconds
        for run in self._runs():
            late = run.run_id in self.since and self.now - self.since[run.run_id][1] >= TIMEOUT
            if late and run.state in (State.RUNNING, State.WAITING_USER):
                running = run.state is State.RUNNING
                self._fails(run, RunErrorCode.TURN_TIMEOUT if running else RunErrorCode.INTERACTION_WAIT_TIMEOUT)

    @invariant()
    def _look(self) -> None:
        """Record the steps of sticky runs; each step starts a new deadline."""
        self.world.settle()
        for run in self._runs():
            step = run.state, run.turn_index, run.pending_interaction_id
            if run.launch.interactive_profile == NEEDS_PROCESS and self.since.get(run.run_id, ((), 0))[0] != step:
                self.since[run.run_id] = step, self.now

    def _runs(self) -> list[Run]:
        every_run = [run for state in State for run in runs.in_state(self.world.store, state)]
        return sorted(every_run, key=lambda run: -run.seq)

    def _one(self, index: int, *states: State, kind: str | None = None) -> Run | None:
        self.world.settle()
        in_states = [run for run in self._runs() if run.state in states]
        candidates = [run for run in in_states if kind in (None, run.launch.interactive_profile)]
        return candidates[index % len(candidates)] if candidates else None

    @rule(kind=st.sampled_from(["resumable", "sticky_process"]))
    def create(self, kind: str) -> None:
        """Create a run."""
        request = {"engine": "codex", "prompt": "p", "execution_mode": "interactive", "interactive_profile": kind}
        answer = created(self.world, request | {"session_timeout_sec": TIMEOUT})
        self.accepted[answer.run_id] = 1

    @rule(index=st.integers(0, 9), how=st.sampled_from(["ask", "final", "fail"]))
    def turn_ends(self, index: int, how: str) -> None:
        """A turn ends."""
        run = self._one(index, State.RUNNING)
        if run is None:
            return
        if run.run_id in self.world.host.listeners:
            self._end_sticky_turn(run, how)
        elif run.handle in self.world.jobs:
            self.world.end_turn(run, ENDS[how])
            if how == "fail":
                self._fails(run, RunErrorCode.ENGINE_FAILED)

    def _end_sticky_turn(self, run: Run, how: str) -> None:
        text = {"ask": ASK, "final": final(x=1), "fail": None}[how]
        self.world.host.listeners[run.run_id](TurnEnded(text, None if text else "refused", "t", declined=False))
        if how == "fail":
            self._fails(run, RunErrorCode.ENGINE_FAILED)

    @rule(index=st.integers(0, 9), how=st.sampled_from(["ask", "final", "fail"]))
    def turn_ends_while_asked(self, index: int, how: str) -> None:
        """A sticky engine ends its turn without waiting for its answer; between turns this has no effect."""
        run = self._one(index, State.WAITING_USER, kind=NEEDS_PROCESS)
        if run is None:
            return
        question = runs.question(self.world.store, run.pending_interaction_id or "")
        assert question
        if question.request_id is not None:
            self._end_sticky_turn(run, how)
            self.world.settle()
            now = runs.find(self.world.store, run.run_id)
            assert now
            assert (now.state is State.WAITING_USER) == (how == "ask")
            assert now.pending_interaction_id != question.interaction_id

    @rule(index=st.integers(0, 9))
    def engine_asks(self, index: int) -> None:
        """A sticky engine asks for permission."""
        run = self._one(index, State.RUNNING, kind=NEEDS_PROCESS)
        if run and (listener := self.world.host.listeners.get(run.run_id)):
            listener(PermissionAsked("1", "write?", ("accept", "decline"), {}))

    @rule(index=st.integers(0, 9), stale=st.booleans(), late=st.booleans())
    def reply(self, index: int, *, stale: bool, late: bool) -> None:
        """A reply arrives, perhaps to another question, perhaps exactly at the deadline."""
        run = self._one(index, State.WAITING_USER)
        if run is None:
            return
        if late:
            self._pass(TIMEOUT)
        pending = "other" if stale else run.pending_interaction_id
        try:
            replied(self.world, run.run_id, {"interaction_id": pending, "response": "accept"})
        except ApiError as refused:
            assert stale or late, refused  # noqa: PT017 - it may be refused or not
        else:
            question = runs.question(self.world.store, run.pending_interaction_id or "")
            self.accepted[run.run_id] += bool(question and question.request_id is None)
            self.expected.pop(run.run_id, None)

    @rule(
        index=st.integers(0, 9),
        how=st.sampled_from([*ENDS, "unsent", "die"]),
        meanwhile=st.sampled_from(["", "restart", "cancel"]),
    )
    def terminal_replies(self, index: int, how: str, meanwhile: str) -> None:
        """A terminal takes a run's question, so nobody else can; then its turn ends, or the terminal dies.

        If no process got the reply, the question is open again. Meanwhile a server may start, or cancel the run.
        """
        run = self._one(index, State.WAITING_USER, kind="resumable")
        if run is None:
            return
        store = self.world.store
        claimed = transitions.claim_at_terminal(store, run, "blue", "tag")
        assert claimed
        assert transitions.claim_at_terminal(store, run, "red", "other") is None
        with pytest.raises(ApiError, match="NOT_WAITING"):
            replied(self.world, run.run_id, {"interaction_id": run.pending_interaction_id, "response": "r"})
        if how == "die":
            recovery.settle_terminal_turns(store, self.world.records)
            self._waits_again(run)
            return
        work = ModelledWork(data_flaw)
        with locked(self.world.records.data.lock(run.handle), run.handle):
            # a data directory has one server, so another one can start only if this one has no run
            if meanwhile == "restart" and not self.world.owner.held:
                recovery.recover(store, self.world.records)
                recovery.settle_terminal_turns(store, self.world.records)
            elif meanwhile == "cancel":
                self.world.commands.cancel(run.run_id)
            assert self._now(run).state is State.RUNNING
            work.ends[run.run_id] = ENDS.get(how, UNSENT)
            Owner(store, self.world.records, work, start_thread=lambda _name, job: job()).play(claimed, Stop())
        if meanwhile == "cancel":
            assert self._now(run).state is State.CANCELED
        elif how == "unsent":
            self._waits_again(run)
        elif how in ("fail", "cut"):
            self._fails(run, RunErrorCode.ENGINE_FAILED if how == "fail" else RunErrorCode.TERMINAL_INTERRUPTED)

    def _waits_again(self, run: Run) -> None:
        now = self._now(run)
        assert (now.state, now.pending_interaction_id) == (State.WAITING_USER, run.pending_interaction_id)

    @rule(index=st.integers(0, 9))
    def cancel(self, index: int) -> None:
        """A caller cancels a run."""
        if run := self._one(index, State.QUEUED, State.RUNNING, State.WAITING_USER):
            self.world.commands.cancel(run.run_id)
            self.world.settle()
            assert self._now(run).state is State.CANCELED

    @rule(index=st.integers(0, 9))
    def process_dies(self, index: int) -> None:
        """A sticky process dies."""
        run = self._one(index, State.RUNNING, State.WAITING_USER, kind=NEEDS_PROCESS)
        if run and (listener := self.world.host.listeners.pop(run.run_id, None)):
            lost = self._has_asked(run)
            self._fails(run, RunErrorCode.INTERACTION_PROCESS_LOST if lost else RunErrorCode.ENGINE_FAILED)
            listener(Lost("it died"))
            listener(Gone(-9))

    @rule(seconds=st.sampled_from([1, TIMEOUT // 2, TIMEOUT + 1]))
    def time_passes(self, seconds: int) -> None:
        """Time passes for timers; the store's wall clock stands still."""
        self._pass(seconds)
        self.world.settle()

    @rule(hours=st.sampled_from([-100, 100]))
    def wall_clock_jumps(self, hours: int) -> None:
        """The system clock is changed, which nothing here depends on."""
        self.jump += timedelta(hours=hours)

    @precondition(lambda self: self.lives < 3)
    @rule(crash=st.booleans())
    def restart(self, *, crash: bool) -> None:
        """The server restarts after a shutdown or a crash."""
        self.world.settle()
        for run in runs.in_state(self.world.store, State.RUNNING):
            self._fails(run, RunErrorCode.ORCHESTRATOR_RESTART_INTERRUPTED)
        waiting = runs.in_state(self.world.store, State.WAITING_USER)
        resumable = [run.run_id for run in waiting if not run.process]
        for run in waiting:
            if run.process:
                self._fails(run, RunErrorCode.INTERACTION_PROCESS_LOST)
        copy = Path(self.root.name, str(self.lives + 1))
        (copy / "handles").mkdir(parents=True)
        if not crash:
            self.world.close()
        with (
            closing(sqlite3.connect(Path(self.root.name, str(self.lives), "turngate.db"))) as old,
            closing(sqlite3.connect(copy / "turngate.db")) as new,
        ):
            old.backup(new)
        if crash:
            self.world.close()
        self.world = self._world()
        assert {run.run_id for run in runs.in_state(self.world.store, State.WAITING_USER)} == set(resumable)

    def _now(self, run: Run) -> Run:
        now = runs.find(self.world.store, run.run_id)
        assert now
        return now

    @invariant()
    def the_table_holds(self) -> None:
        """Every state change of every run is in the table."""
        self.world.settle()
        for run in self._runs():
            events = [event.data for event in runs.events(self.world.store, run.run_id, 0, 1000)]
            path = [event.state for event in events if isinstance(event, StateEvent)]
            assert path[-1] is run.state
            assert all(to in TRANSITIONS[source].values() for source, to in pairwise(path))

    @invariant()
    def ended_runs_say_why(self) -> None:
        """A run fails only when it must and with the right code; an ended run has nothing open."""
        self.world.settle()
        for run in self._runs():
            reported = {run.error.code} if run.error else None
            assert reported == self.expected.get(run.run_id), (run, self.expected.get(run.run_id))
            assert (run.error is not None) == (run.state is State.FAILED)
            if run.state in ENDED:
                assert (run.process, run.pending_interaction_id) == (None, None)
                turns = runs.turns(self.world.store, run.run_id)
                assert all(turn.ended_at and turn.outcome for turn in turns), turns

    @invariant()
    def slots_balance(self) -> None:
        """Slots are held by running runs and by waiting runs with a process, and by nothing else."""
        self.world.settle()
        assert len(self.world.holding()) <= self.world.owner.held <= SLOTS

    @invariant()
    def nothing_is_prompted_twice(self) -> None:
        """A sticky process gets its first prompt, and one prompt for each accepted reply."""
        for run_id, count in self.accepted.items():
            assert self.world.host.prompts.count(run_id) <= count


Interleavings.TestCase.settings = settings(
    stateful_step_count=25, suppress_health_check=list(HealthCheck), database=None
)
TestInterleavings = Interleavings.TestCase


def test_a_run_that_is_being_canceled_asks_no_more(tmp_path: Path) -> None:
    """A request for permission that comes after the cancel does not make the run wait."""
    world = ModelledServer(tmp_path, lambda: 0.0)
    request = {"engine": "codex", "prompt": "p", "execution_mode": "interactive", "interactive_profile": NEEDS_PROCESS}
    run_id = created(world, request).run_id
    world.settle()
    (run,) = runs.in_state(world.store, State.RUNNING)
    world.commands.cancel(run_id)
    assert not transitions.ask_permission(world.store, run, QUESTION, "1")
    world.settle()
    events = [event.data for event in runs.events(world.store, run_id, 0, 1000)]
    assert State.WAITING_USER not in [event.state for event in events if isinstance(event, StateEvent)]
    world.close()


@pytest.fixture(name="waiting")
def _waiting(tmp_path: Path) -> Iterator[tuple[ModelledServer, Run]]:
    """Provide a server with a run that waits for its user."""
    world = ModelledServer(tmp_path, lambda: 0.0)
    created(world, {"engine": "codex", "prompt": "p", "execution_mode": "interactive"})
    world.settle()
    (running,) = runs.in_state(world.store, State.RUNNING)
    world.end_turn(running, ENDS["ask"])
    (waits,) = runs.in_state(world.store, State.WAITING_USER)
    yield world, waits
    world.close()


def test_a_cancel_counts_while_the_processes_of_a_dead_terminal_are_ended(
    waiting: tuple[ModelledServer, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is canceled: it neither fails, nor waits again with a mark that would cancel the next turn."""
    world, run = waiting
    assert transitions.claim_at_terminal(world.store, run, "blue", "tag")

    def end(_noted: object) -> tuple[int, ...]:
        world.commands.cancel(run.run_id)
        return ()

    monkeypatch.setattr(recovery, "end_orphans", end)
    recovery.settle_terminal_turns(world.store, world.records)
    assert runs.find(world.store, run.run_id).state is State.CANCELED  # type: ignore[union-attr]


def test_a_terminal_that_was_taken_for_dead_does_not_end_a_later_turn(waiting: tuple[ModelledServer, Run]) -> None:
    """Its turn has the number of a later one, but another tag; nor is the later one's reply taken for unsent."""
    world, run = waiting
    dead = transitions.claim_at_terminal(world.store, run, "blue", "dead")
    recovery.settle_terminal_turns(world.store, world.records)
    (again,) = runs.in_state(world.store, State.WAITING_USER)
    later = transitions.claim_at_terminal(world.store, again, "red", "later")
    assert dead
    assert later
    assert dead.turn_index == later.turn_index
    with world.store.writing() as connection:
        transitions.note_sent(connection, run.run_id, sent=True)
    before = runs.find(world.store, run.run_id)
    ended = transitions.end_turn(world.store, world.records, dead, ENDS["fail"], TurnResult(), is_sent=False)
    assert ended
    assert not ended.counts
    assert runs.find(world.store, run.run_id) == before


def test_a_run_that_is_continued_is_in_use(waiting: tuple[ModelledServer, Run]) -> None:
    """Its record is written, so that `handles prune`, which has read an old one, keeps its directory."""
    world, run = waiting
    world.commands.cancel(run.run_id)
    world.settle()
    before = handle_record.read(world.records.data.record(run.handle))
    with mock.patch.object(Commands, "no_continue", return_value=None):
        world.commands.continue_run(run.run_id, ContinueRequest("go on"), None)
    after = handle_record.read(world.records.data.record(run.handle))
    assert (before.state, after.state) == (State.CANCELED, State.QUEUED)


def test_a_reply_that_its_process_never_got_is_kept(tmp_path: Path) -> None:
    """The run fails, since nothing else can continue it, and says what was not sent."""
    world = ModelledServer(tmp_path, lambda: 0.0)
    request = {"engine": "codex", "prompt": "p", "execution_mode": "interactive", "interactive_profile": NEEDS_PROCESS}
    run_id = created(world, request).run_id
    world.settle()
    world.host.tell(run_id, TurnEnded(ASK, None, "t", declined=False))
    world.settle()
    (waits,) = runs.in_state(world.store, State.WAITING_USER)
    world.host.gone_at_prompt = True
    replied(world, run_id, {"interaction_id": waits.pending_interaction_id, "response": "red"})
    world.settle()
    (run,) = runs.in_state(world.store, State.FAILED)
    unsent = runs.unsent_reply(world.store, run_id)
    assert run.error
    assert unsent
    assert (run.error.code, unsent.response) == (RunErrorCode.INTERACTION_PROCESS_LOST, "red")
    world.close()
