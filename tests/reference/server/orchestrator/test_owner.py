"""Tests of the owner of the runs, without threads: single stories, and a property of whatever may happen.

Whatever happens, in any order and with a fault at any effect: no reply is lost or used twice, no slot is leaked, each
process has an owner, and each effect happens once.
"""

import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import nullcontext, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.reference.commanded import created, replied
from tests.reference.server.orchestrator.modelled_server import (
    ENDS,
    ENGINE,
    NEEDS_PROCESS,
    SLOTS,
    TIMEOUT,
    UNSENT,
    ModelledServer,
)
from tests.reference.server_env import ASK, final
from turngate_reference.data_dir import HANDLE_LENGTH
from turngate_reference.server.orchestrator import live_run, recovery, transitions
from turngate_reference.server.orchestrator.owner import RETRY_SECONDS
from turngate_reference.server.requests import ApiError
from turngate_reference.server.store import runs
from turngate_reference.server.store.events import (
    DeliveryEvent,
    ReplyReturnEvent,
    StateEvent,
    StoredEvent,
    TextEvent,
    TurnEndEvent,
    TurnStartEvent,
)
from turngate_reference.server.store.runs import Run
from turngate_reference.server.transports.events import AgentText, Lost, Opened, PermissionAsked, TurnEnded
from turngate_reference.states import TRANSITIONS, State


class AnyOrder(RuleBasedStateMachine):
    """What may happen at any moment, also before the owner has done what is due, and with a fault at any effect."""

    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.TemporaryDirectory()
        self.now, self.asked = 0.0, 0
        self.world = ModelledServer(Path(self.root.name), lambda: self.now, quick=False)

    def _one(self, index: int, names: Collection[str]) -> str:
        """Choose one of the runs with these ids or handles, whatever their random names are."""
        order = [row["handle"] for row in self.world.store.read("SELECT handle FROM runs ORDER BY seq")]
        return sorted(names, key=lambda name: order.index(name[-HANDLE_LENGTH:]))[index % len(names)]

    @rule(kind=st.sampled_from(["resumable", "sticky_process"]))
    def create(self, kind: str) -> None:
        """Create a run."""
        request = {"engine": "codex", "prompt": "p", "execution_mode": "interactive", "interactive_profile": kind}
        self._command(lambda: created(self.world, request | {"session_timeout_sec": TIMEOUT}))

    @rule()
    def owner_works(self) -> None:
        """The owner does what is due."""
        self.world.owner.drain()

    @precondition(lambda self: self.world.jobs)
    @rule(index=st.integers(0, 9), how=st.sampled_from(["ask", "final", "fail", "unsent"]))
    def job_ends(self, index: int, how: str) -> None:
        """A thread has done its job, such as a turn in a process of its own."""
        handle = self._one(index, self.world.jobs)
        run_id = self.world.live(handle).run.run_id
        self.world.work.ends[run_id] = ENDS.get(how, UNSENT)
        self.world.jobs.pop(handle)()

    @precondition(lambda self: self.world.host.listeners)
    @rule(index=st.integers(0, 9), what=st.sampled_from(["open", "ask", "end", "fail", "lose", "gone"]))
    def process_reports(self, index: int, what: str) -> None:
        """A kept process says something, perhaps too late or out of turn."""
        run_id, host = self._one(index, self.world.host.listeners), self.world.host
        self.asked += 1
        match what:
            case "open":
                host.tell(run_id, Opened(1, 1.0, "t", ("app-server",)))
            case "ask":
                host.tell(run_id, PermissionAsked(str(self.asked), "write?", ("accept", "decline"), {}))
            case "end" | "fail":
                text = (ASK, final(x=1))[self.asked % 2] if what == "end" else None
                host.tell(run_id, TurnEnded(text, None if text else "refused", "t", declined=False))
            case "lose":
                host.tell(run_id, Lost("it died"))
                host.ended.append(run_id)
            case "gone" if run_id in host.ended:
                host.gone(run_id)

    @rule(index=st.integers(0, 9))
    def reply(self, index: int) -> None:
        """A reply arrives."""
        if waiting := {run.run_id: run for run in runs.in_state(self.world.store, State.WAITING_USER)}:
            run = waiting[self._one(index, waiting)]
            body = {"interaction_id": run.pending_interaction_id, "response": "accept"}
            self._command(lambda: replied(self.world, run.run_id, body))

    @rule(index=st.integers(0, 19))
    def cancel(self, index: int) -> None:
        """A caller cancels a run, but not often."""
        if index < 5 and (ids := runs.ids(self.world.store)):
            self._command(lambda: self.world.commands.cancel(self._one(index, ids)))

    @rule(seconds=st.sampled_from([0.1, 1, TIMEOUT]))
    def time_passes(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds

    @rule(place=st.sampled_from(["writing", "open", "prompt", "start_thread", "observe"]))
    def fault(self, place: str) -> None:
        """The next call of this fails."""
        self.world.faults[place] = 1

    def _command(self, command: Callable[[], object]) -> None:
        with suppress(ApiError, sqlite3.Error):
            command()

    @invariant()
    def every_process_has_an_owner(self) -> None:
        """And no run has two, and no more runs hold slots than there are."""
        assert {*self.world.host.listeners} <= {*self.world.owner._live}
        assert self.world.owner.held <= SLOTS
        running = {run.run_id for run in runs.in_state(self.world.store, State.RUNNING)}
        assert running <= {*self.world.owner._live}

    @invariant()
    def nothing_is_sent_twice(self) -> None:
        """Each turn has one prompt at most, and each reply one turn, or it was returned."""
        for run in [run for state in State for run in runs.in_state(self.world.store, state)]:
            events = [event.data for event in runs.events(self.world.store, run.run_id, 0, 1000)]
            kinds = Counter(type(event) for event in events)
            returned = kinds[ReplyReturnEvent]
            assert kinds[TurnStartEvent] == run.turn_index + returned
            sent = self.world.host.prompts.count(run.run_id) + self.world.work.started.count(run.run_id)
            assert kinds[DeliveryEvent] <= sent <= run.turn_index
            assert kinds[TurnEndEvent] in (kinds[TurnStartEvent], kinds[TurnStartEvent] - 1)
            path = [event.state for event in events if isinstance(event, StateEvent)]
            assert all(to in TRANSITIONS[source].values() for source, to in pairwise(path))
            if run.is_resumable and run.state is State.FAILED and sent < run.turn_index > 1:
                assert runs.unsent_reply(self.world.store, run.run_id), "a reply that nobody got is kept"

    def teardown(self) -> None:
        """The server ends in order: all turns and processes end, and all slots are free."""
        self.world.faults.clear()
        self.world.host.quick = True
        self.world.owner.close()
        for run_id in {*self.world.host.listeners} & {*self.world.host.ended}:
            self.world.host.gone(run_id)
        self.now += RETRY_SECONDS
        self.world.settle()
        assert (self.world.owner.held, self.world.host.listeners, self.world.jobs) == (0, {}, {})
        for state in (State.RUNNING, State.WAITING_USER):
            assert not [run for run in runs.in_state(self.world.store, state) if state is State.RUNNING or run.process]
        self.nothing_is_sent_twice()
        self.world.store.close()
        self.root.cleanup()


AnyOrder.TestCase.settings = settings(stateful_step_count=50, suppress_health_check=list(HealthCheck), database=None)
TestAnyOrder = AnyOrder.TestCase


class Story:
    """A server and its clock."""

    def __init__(self, folder: Path) -> None:
        self.now = 0.0
        self.world = ModelledServer(folder, lambda: self.now)
        self.store, self.host = self.world.store, self.world.host

    def begin(self, kind: str = NEEDS_PROCESS) -> Run:
        """Create a run, whose turn begins if there is a slot."""
        request = {"engine": "codex", "prompt": "p", "execution_mode": "interactive", "interactive_profile": kind}
        run_id = created(self.world, request | {"session_timeout_sec": TIMEOUT}).run_id
        self.world.settle()
        return self.run(run_id)

    def asks(self, kind: str = NEEDS_PROCESS) -> Run:
        """Let a run ask."""
        run = self.begin(kind)
        if kind == NEEDS_PROCESS:
            self.host.tell(run.run_id, TurnEnded(ASK, None, "t", declined=False))
            self.world.settle()
        else:
            self.world.end_turn(run, ENDS["ask"])
        return self.run(run.run_id)

    def reply(self, run: Run) -> None:
        """Reply to the open question."""
        pending = self.run(run.run_id).pending_interaction_id
        replied(self.world, run.run_id, {"interaction_id": pending, "response": "accept"})

    def passes(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds
        self.world.settle()

    def run(self, run_id: str) -> Run:
        """Read a run."""
        run = runs.find(self.store, run_id)
        assert run
        return run

    def code(self, run: Run) -> str:
        """Return why a run has failed, or its state."""
        now = self.run(run.run_id)
        return now.error.code if now.error else now.state.value


@pytest.fixture(name="story")
def _story(tmp_path: Path) -> Iterator[Story]:
    story = Story(tmp_path)
    yield story
    story.world.faults.clear()
    story.world.owner.close()
    story.passes(RETRY_SECONDS)
    story.store.close()


def test_a_wait_ends_after_its_time(story: Story) -> None:
    """Not before, and not if a reply has come; then the run is told, and the slot is free."""
    first, second = story.asks(), story.asks()
    story.passes(TIMEOUT - 1)
    story.reply(second)
    assert story.host.ended == []
    story.passes(1)
    assert (story.code(first), story.code(second)) == ("INTERACTION_WAIT_TIMEOUT", "running")
    assert (story.host.ended, story.world.owner.held) == ([first.run_id], 1)
    story.passes(TIMEOUT)
    assert story.code(second) == "TURN_TIMEOUT"


def test_a_locked_store_keeps_nobody_waiting_and_loses_nothing(story: Story) -> None:
    """What an engine says is read, and others are ended; all is written later, once and in order."""
    first, second = story.begin(), story.asks()
    with story.world.locked():
        for number in range(100):
            story.host.tell(first.run_id, AgentText(str(number)))
        story.host.tell(first.run_id, TurnEnded(final(x=1), None, "t", declined=False))
        story.host.tell(second.run_id, Lost("it has exited"))
        story.host.gone(second.run_id)
        story.world.settle()
        story.passes(RETRY_SECONDS)
        assert (story.code(first), story.code(second)) == ("running", "waiting_user")
    story.passes(RETRY_SECONDS)
    assert (story.code(first), story.code(second)) == ("succeeded", "INTERACTION_PROCESS_LOST")
    texts = [event.data.text for event in events_of(story, first) if isinstance(event.data, TextEvent)]
    assert texts == [str(number) for number in range(100)]


def events_of(story: Story, run: Run) -> list[StoredEvent]:
    """Read the events of a run."""
    return runs.events(story.store, run.run_id, 0, 1000)


def test_memory_is_bounded(story: Story, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """A text that doesn't fit is left out and counted; there is room again once the others are written."""
    monkeypatch.setattr(live_run, "MAX_PENDING", 10)
    run = story.begin()
    with story.world.locked():
        for text in ("1234567", "7654", "321"):
            story.host.tell(run.run_id, AgentText(text))
        story.world.settle()
    story.passes(RETRY_SECONDS)
    story.host.tell(run.run_id, AgentText("7654"))
    story.world.settle()
    texts = [event.data.text for event in events_of(story, run) if isinstance(event.data, TextEvent)]
    assert texts == ["1234567", "321", "7654"]
    assert "1 texts of turn 1 are missing from its events" in caplog.text


def test_what_can_never_be_written_holds_up_nothing(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is dropped, and the turn goes on."""
    run = story.begin()
    monkeypatch.setattr(live_run, "add_event", lambda *_: 1 / 0)
    story.host.tell(run.run_id, AgentText("odd"))
    story.host.tell(run.run_id, TurnEnded(final(x=1), None, "t", declined=False))
    story.world.settle()
    assert story.code(run) == "succeeded"


@pytest.mark.parametrize("kind", ["resumable", NEEDS_PROCESS])
def test_what_gets_no_thread_comes_later(story: Story, kind: str) -> None:
    """At each step of a turn that takes a thread; nothing is sent twice."""
    for _ in range(3):
        story.world.faults["start_thread"] = 1
        if not runs.ids(story.store):
            run = story.begin(kind)
        elif kind == NEEDS_PROCESS:
            story.host.tell(run.run_id, TurnEnded(final(x=1), None, "t", declined=False))
        elif run.handle in story.world.jobs:
            story.world.end_turn(run, ENDS["final"])
        story.world.settle()
        story.passes(RETRY_SECONDS)
    assert story.code(run) == "succeeded"
    assert len(story.world.work.started) + len(story.host.prompts) == 1


def test_a_cancel_ends_no_later_turn(story: Story) -> None:
    """A user may have continued a canceled run before the owner hears of the cancel; the turn itself is ended."""
    first = story.asks("resumable")
    story.reply(first)
    story.world.settle()
    story.world.owner.stop(first)
    story.world.owner.drain()
    assert story.world.is_playing(first.handle)
    story.world.owner.stop(story.run(first.run_id))
    story.world.owner.drain()
    assert not story.world.is_playing(first.handle)


def test_a_reply_may_be_first_although_the_process_is_gone(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """It died after its answer, and the run waits for a moment; a reply in this moment begins a turn, which fails."""
    run, end_turn = story.begin(), transitions.end_turn

    def replied_at_once(*given: Any, **named: Any) -> Any:
        written = end_turn(*given, **named)
        if written and written.state is State.WAITING_USER:
            story.reply(run)
        return written

    monkeypatch.setattr(transitions, "end_turn", replied_at_once)
    story.host.tell(run.run_id, TurnEnded(ASK, None, "t", declined=False))
    story.host.tell(run.run_id, Lost("it has exited"))
    story.host.gone(run.run_id)
    story.world.settle()
    assert (story.code(run), story.run(run.run_id).turn_index) == ("INTERACTION_PROCESS_LOST", 2)
    assert story.world.owner.held == 0


def test_a_canceled_turn_that_could_not_begin_ends(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process may be ending already; the run is canceled once that is gone, and the slot is free."""
    run = story.asks()
    story.host.quick = False
    monkeypatch.setattr(runs, "last_answer", lambda *_: 1 / 0)
    story.reply(run)
    story.world.commands.cancel(run.run_id)
    story.world.settle()
    assert story.code(run) == "running"
    story.host.gone(run.run_id)
    story.world.settle()
    assert (story.code(run), story.world.owner.held) == ("canceled", 0)


def test_a_kill_during_recovery_loses_no_reply(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """The note that no process has the reply stays until the turn is ended, so the next server returns it."""
    run = story.asks("resumable")
    story.reply(run)
    story.world.owner.drain()
    with monkeypatch.context() as patch:
        patch.setattr(recovery, "with_session", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            recovery.recover(story.store, story.world.records)
    recovery.recover(story.store, story.world.records)
    assert story.code(run) == "waiting_user"
    assert runs.unsent_reply(story.store, run.run_id)


def test_what_nobody_foresaw_does_not_end_the_queue(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected error is logged, and the queue is processed again."""
    with monkeypatch.context() as patch:
        patch.setattr(transitions, "claim", mock.Mock(side_effect=MemoryError))
        run = story.begin()
        assert story.code(run) == "queued"
    story.passes(RETRY_SECONDS)
    assert story.code(run) == "running"


def test_an_error_of_ours_frees_the_slot(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the end of a process can't be told."""
    run = story.asks()
    monkeypatch.setattr(transitions, "fail_waiting", lambda *_: 1 / 0)
    story.passes(TIMEOUT)
    assert (story.world.owner.held, story.host.ended) == (0, [run.run_id])


def test_a_turn_that_can_not_be_written_fails_its_run(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what it says, if an error of ours is the cause; the run does not go on for ever."""
    whole = transitions.end

    def without_answer(connection: sqlite3.Connection, records: Any, run: Run, decision: Any, result: Any) -> State:
        if decision.error is None:
            raise UnicodeError("can't encode it")
        return whole(connection, records, run, decision, result)

    monkeypatch.setattr(transitions, "end", without_answer)
    run = story.begin()
    story.host.tell(run.run_id, TurnEnded(ASK, None, "t", declined=False))
    story.world.settle()
    assert (story.code(run), story.world.owner.held) == ("ORCHESTRATOR_ERROR", 0)


@pytest.mark.parametrize("is_locked", [False, True])
def test_nothing_is_left_when_the_server_closes(story: Story, *, is_locked: bool) -> None:
    """What waits is ended, and settled if the store can be written."""
    run = story.asks()
    with story.world.locked() if is_locked else nullcontext():
        story.world.owner.close()
        story.world.settle()
    assert (story.world.owner.held, story.host.ended) == (0, [run.run_id])
    assert story.code(run) == ("waiting_user" if is_locked else "INTERACTION_PROCESS_LOST")


def test_a_server_that_ends_starts_no_process(story: Story) -> None:
    """A turn that was claimed too late is interrupted."""
    story.world.faults["open"] = 1
    assert story.code(story.begin()) == "ORCHESTRATOR_ERROR"
    story.host.open = mock.Mock(side_effect=ValueError)  # type: ignore[method-assign]
    assert story.code(story.begin()) == "ORCHESTRATOR_RESTART_INTERRUPTED"


@pytest.mark.parametrize(
    "session_id, is_kept", [(ENGINE.contract.handle.nonexistent_id, True), ("--yolo", False), ("", False)]
)
def test_a_session_id_is_kept_if_it_can_be_passed_on(story: Story, session_id: str, *, is_kept: bool) -> None:
    """And only the first one of a run."""
    run = story.begin()
    story.host.tell(run.run_id, TurnEnded(ASK, None, session_id, declined=False))
    story.world.settle()
    session = story.run(run.run_id).session
    assert (session and session.handle_value) == (session_id if is_kept else None)
    story.reply(run)
    story.world.settle()
    story.host.tell(run.run_id, TurnEnded(ASK, None, "another", declined=False))
    story.world.settle()
    later = story.run(run.run_id).session
    assert (later and later.handle_value) == (session_id if is_kept else "another")
