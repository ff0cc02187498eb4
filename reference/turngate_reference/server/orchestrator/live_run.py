"""A run that holds a slot: asks its two machines what is to be done, and does it.

Everything here happens on the thread of the owner, but for `_hear` and `_listen`, which the threads that read engines
call. What needs the store waits in a queue, in order, until the owner calls `flush`.
"""

import logging
import math
import sqlite3
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import takewhile
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from turngate import Interaction, Reported, Stop
from turngate.contract.session_ids import unsafe
from turngate.turn.read import MAX_REPORT, MAX_REPORTED
from turngate_reference.engine.attempt import InstalledEngine
from turngate_reference.handle_record import after
from turngate_reference.server.orchestrator import kept_states, transitions, turn_states
from turngate_reference.server.orchestrator.decide import (
    INTERRUPTED,
    TurnResult,
    fails_turn,
    fails_waiting,
    ours,
)
from turngate_reference.server.orchestrator.headless import TurnFailed, TurnWork, stored_session
from turngate_reference.server.orchestrator.kept_states import GONE, Decided, KeptCause, KeptEvent, KeptState, Life
from turngate_reference.server.orchestrator.run_files import Records
from turngate_reference.server.orchestrator.turn_states import (
    Answered,
    Failed,
    Judged,
    Marked,
    Plan,
    Played,
    Prepared,
    TurnCause,
    TurnEvent,
    TurnState,
    Written,
)
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.events import TextEvent, add_event
from turngate_reference.server.store.runs import ProcessNote, Run, RunSession
from turngate_reference.server.transports import events
from turngate_reference.states import ENDED, Delivery

log = logging.getLogger(__name__)

MAX_TEXTS = 1000  # of a turn
MAX_TEXT = 64 * 2**10
MAX_PENDING = 8 * 2**20  # characters of a run's texts that are not written yet
Write: TypeAlias = Callable[[sqlite3.Connection], None]
Otherwise: TypeAlias = Callable[[Exception], None]


class NoThreadError(Exception):
    """No thread can be started now; the text says why."""


class Writing(Struct, frozen=True):
    """Something to be written, together with what comes next; `size` is that of a text."""

    write: Write
    size: int = 0


class Action(Struct, frozen=True):
    """Something that needs the store or a thread; `otherwise` is done if it fails otherwise, or is given up."""

    do: Callable[[], None]
    otherwise: Otherwise


class Means(Struct, frozen=True):
    """What carries out the effects of a run: the store, threads, the host of kept processes, and the owner.

    `post` lets the owner do something that has happened, from any thread, and `release` gives the slot of a run back.
    `gives_up` says whether something is not tried again after an error. `observe` gets engine, outcome and seconds of
    each turn.
    """

    store: Store
    records: Records
    work: TurnWork
    start_thread: Callable[[str, Callable[[], None]], None]
    host: events.Host
    clock: Callable[[], float]
    post: Callable[[Callable[[], None]], None]
    release: Callable[[Run], None]
    gives_up: Callable[[Exception], bool]
    observe: Callable[[str, str, float], None]


class LiveRun:
    """A run, its turn, and the life of its kept process (None: it has none), whose deadline is `due`.

    `written` is what became of the turn in the store. `began` is when a process last got a turn, or the run its slot;
    `_since` is when the turn began to be prepared. Times are those of the clock.
    """

    turn_state: TurnState
    plan: Plan | None
    judged: Judged
    written: Written | None

    def __init__(self, means: Means, run: Run) -> None:
        self.means, self.run = means, run
        self.tag = run.process.tag if run.process else ""
        self.life: Life | None = None
        self.due, self.began = math.inf, means.clock()
        self.todo = deque[Writing | Action]()
        self._engine: InstalledEngine | None = None
        # characters that were read, and that were written or left out
        self._heard = self._handled = self._missing = 0

    def begin(self, run: Run, stop: Stop) -> None:
        """Begin a turn."""
        self.run, self.stop, self._since = run, stop, self.means.clock()
        self.turn_state, self.plan, self.written = TurnState.PREPARING, None, None
        self.judged = Judged(INTERRUPTED, TurnResult())
        self._is_sent, self._texts = False, 0
        self._reported = dict[Reported, None]()
        self._do(self._prepare)

    @property
    def note(self) -> ProcessNote | None:
        """What is stored about the kept process, so that it can be ended even if the server dies; None: it is gone."""
        if self.life is None or self.life.state in GONE:
            return None
        if (opened := self.life.opened) is None:
            return ProcessNote(self.tag)
        return ProcessNote(self.tag, opened.pid, opened.started_at, self.life.session_id)

    def flush(self) -> None:
        """Do what needs the store or a thread; sqlite3.Error or NoThreadError: it must be tried again."""
        while self.todo:
            writings = [*takewhile(lambda todo: isinstance(todo, Writing), self.todo)]
            failure: Exception | None = None
            try:
                self._do_next(writings)
            except (sqlite3.Error, NoThreadError) as error:
                if not self.means.gives_up(error):
                    raise
                failure = error
            except Exception as error:
                log.exception("%s failed because of an error in turngate", self.run.run_id)
                failure = error
            for _ in writings or (0,):
                match self.todo.popleft():
                    case Writing(_, size):
                        self._handled += size
                    case Action(_, otherwise) if failure is not None:
                        otherwise(failure)

    def turn(self, event: TurnEvent) -> None:
        """Take an event of the turn."""
        self.turn_state, effects = turn_states.step(self.turn_state, event)
        for effect in effects:
            self._safely(partial(self._for_turn, effect, event))

    def tell(self, event: KeptEvent) -> None:
        """Take an event of the kept process."""
        if self.life is None:
            return
        self._is_sent |= isinstance(event, events.PromptSent)
        self.life, effects = kept_states.step(self.life, event)
        for effect in effects:
            self._safely(partial(self._for_process, self.life, effect, event))
        if isinstance(event, events.AgentText) and not effects:
            self._handled += len(event.text)

    def _safely(self, action: Callable[[], None]) -> None:
        """Do something that does not need the store; an error of ours fails the turn, if it still goes on."""
        try:
            action()
        except Exception as error:
            log.exception("%s failed because of an error in turngate", self.run.run_id)
            self.means.post(partial(self._break, error))

    def _break(self, error: Exception) -> None:
        self.turn(Failed(ours(error)))

    def _do(self, action: Callable[[], None], otherwise: Otherwise | None = None) -> None:
        self.todo.append(Action(action, otherwise or self._break))

    def _put(self, write: Write, size: int = 0) -> None:
        self.todo.append(Writing(write, size))

    def _do_next(self, writings: Iterable[Writing | Action]) -> None:
        """Do the next action, or what is to be written before it."""
        if isinstance(action := self.todo[0], Action):
            action.do()
            return
        with self.means.store.writing() as connection:
            for writing in writings:
                if isinstance(writing, Writing):
                    self._write(writing, connection)

    def _write(self, writing: Writing, connection: sqlite3.Connection) -> None:
        try:
            writing.write(connection)
        except sqlite3.Error:
            raise
        except Exception:
            # it would fail every time and block all later writes
            log.exception("dropped an event that can't be written")

    def _for_turn(self, effect: turn_states.Effect, event: TurnEvent) -> None:
        match effect, event:
            case turn_states.Effect.MARK, Prepared(plan):
                self.plan = plan
                self._do(partial(self._mark, plan))
            case turn_states.Effect.PLAY, Marked(plan):
                self._play(plan)
            case turn_states.Effect.STOP, _:
                self.stop.set()
            case turn_states.Effect.JUDGE, Played() | Answered() | Failed():
                self._is_sent = self._is_sent and not (isinstance(event, Failed) and event.unsent)
                self._do(partial(self._judge, event), lambda error: self.turn(Judged(ours(error), TurnResult())))
            case turn_states.Effect.WRITE, _:
                if isinstance(event, Judged):
                    self.judged = event
                self._do(self._end, self._leave_out)
            case turn_states.Effect.END_PROCESS, _:
                self.tell(KeptCause.END)
                self.tell(KeptCause.TURN_BEGUN)  # if it had not: the turn hears when the process is gone
            case turn_states.Effect.LEAVE, _:
                waits = isinstance(event, Written) and event.state not in ENDED
                if self.life is None:
                    self.means.release(self.run)
                self.tell(KeptCause.RUN_WAITS if waits else KeptCause.RUN_ENDED)

    def _start(self, job: Callable[[], TurnEvent]) -> None:
        """Work for the turn in a thread; NoThreadError: there is none."""

        def work() -> None:
            try:
                event = job()
            except TurnFailed as early:
                event = early.event
            except Exception as error:
                log.exception("turn %s of %s failed because of an error in turngate", run.turn_index, run.run_id)
                event = Failed(ours(error))
            self.means.post(partial(self.turn, event))

        run = self.run
        try:
            self.means.start_thread(f"turngate-{run.handle}", work)
        except (RuntimeError, MemoryError) as error:
            raise NoThreadError(f"{type(error).__name__}: {error}") from error

    def _prepare(self) -> None:
        run = self.run
        reply = runs.last_answer(self.means.store, run.run_id, run.turn_index) or "" if run.turn_index > 1 else None
        self._start(partial(self.means.work.prepare, run, reply, self._engine))

    def _mark(self, plan: Plan) -> None:
        if plan.settled or plan.command is not None:
            transitions.mark(self.means.store, plan)
        self.run = plan.run
        self.turn(Marked(plan))

    def _play(self, plan: Plan) -> None:
        if (command := plan.command) is not None:

            def on_start(pid: int, started_at: float | None) -> None:
                self.means.post(lambda: self._started(plan, command.own_arguments, pid, started_at))

            on_text = partial(self._listen, self._say)
            job = partial(self.means.work.play, plan, command, self.stop, on_start, on_text)
            self._do(partial(self._start, job))
        elif plan.opens is not None:
            self._open(plan, plan.opens)
        else:
            self.began = self.means.clock()
            self.tell(KeptCause.TURN_BEGUN)

    def _started(self, plan: Plan, argv: tuple[str, ...], pid: int, started_at: float | None) -> None:
        """Note the turn's own process."""
        run, version, self._is_sent = self.run, plan.engine.version, True
        if started_at is not None:
            noted = replace(run.process or ProcessNote(""), pid=pid, started_at=started_at, unsent=False)
            self._put(lambda connection: runs.change(connection, run.run_id, process=noted))
        self._put(lambda connection: transitions.note_start(connection, run, argv, version, Delivery.NEW_PROCESS))

    def _open(self, plan: Plan, request: events.OpenRequest) -> None:
        """Start the process that the run will keep."""
        try:
            is_open = not self.stop.is_set()
            if is_open:
                self.means.host.open(self.run.run_id, request, self._hear)
        except ValueError:  # the server is closing
            is_open = False
        if not is_open:
            self.turn(Failed(INTERRUPTED))
            return
        self.life, self._engine, self.began = Life(), plan.engine, self.means.clock()
        self.due = self.began + self.run.session_timeout_sec

    def _hear(self, event: events.ProcessEvent) -> None:
        """Take an event of the kept process from the thread that reads it."""
        if isinstance(event, events.AgentText):
            self._listen(lambda text: self.tell(events.AgentText(text)), event.text)
        else:
            self.means.post(partial(self.tell, event))

    def _listen(self, take: Callable[[str], None], text: str) -> None:
        """Take a text from the thread that reads the engine, unless too many are unwritten."""
        text = text[:MAX_TEXT]
        if self._heard - self._handled + len(text) > MAX_PENDING:
            self._missing += 1
            log.warning(
                "%s: %d texts of turn %d are missing from its events: the store was unavailable; the trace is complete",
                self.run.run_id,
                self._missing,
                self.run.turn_index,
            )
            return
        self._heard += len(text)
        self.means.post(partial(take, text))

    def _say(self, text: str) -> None:
        run, self._texts = self.run, self._texts + 1
        if self._texts > MAX_TEXTS:
            self._handled += len(text)
            return
        said = TextEvent(run.turn_index, text)
        self._put(lambda connection: add_event(connection, run.run_id, said), len(text))

    def _judge(self, event: Played | Answered | Failed) -> None:
        session = self._new_session(self.life.session_id) if self.life else None
        known = TurnResult(self.means.clock() - self._since, session=session, reported=tuple(self._reported))
        self._start(partial(self.means.work.judge, self.run, self.plan, event, known))

    def _end(self) -> None:
        """Write the end of the turn."""
        decision, result = self.judged.decision, replace(self.judged.result, process=self.note)
        store, records = self.means.store, self.means.records
        self.written = transitions.end_turn(store, records, self.run, decision, result, is_sent=self._is_sent)
        self.turn(self.written or TurnCause.MUST_END)
        if self.written is not None:
            self.means.observe(self.run.engine, result.outcome, result.seconds or 0.0)

    def _leave_out(self, error: Exception) -> None:
        """Write only that the turn has failed, if what it says can't be written; give up if the server ends."""
        bare = Judged(ours(error), TurnResult())
        is_final = isinstance(error, sqlite3.Error) or self.judged.result == bare.result
        self.turn(TurnCause.UNWRITTEN if is_final else bare)

    def _for_process(self, life: Life, effect: kept_states.Effect, event: KeptEvent) -> None:
        """Pass on what can be passed on at once."""
        run_id, host = self.run.run_id, self.means.host
        match effect, event:
            case kept_states.Effect.PROMPT, _ if self.plan is not None:
                host.prompt(run_id, self.plan.text)
            case kept_states.Effect.DECIDE, Decided(request_id, option):
                host.decide(run_id, request_id, option)
            case kept_states.Effect.END, _:
                host.end(run_id)
            case kept_states.Effect.LIMIT, _:
                self.due = self.means.clock() + self.run.session_timeout_sec
            case kept_states.Effect.RELEASE, _:
                self.means.release(self.run)
            case kept_states.Effect.FINISH, events.TurnEnded():
                self.turn(Answered(event))
            case kept_states.Effect.NOTE, _:
                self._note(life, event)
            case _:
                self._do_for_process(life, effect, event)

    def _do_for_process(self, life: Life, effect: kept_states.Effect, event: KeptEvent) -> None:
        match effect, event:
            case kept_states.Effect.ASK, events.PermissionAsked():
                self._do(partial(self._ask, event))
            case kept_states.Effect.TAKE_BACK, events.TurnEnded():
                self._do(partial(self._take_back, event))
            case kept_states.Effect.FAIL, _:
                self._do(partial(self._lose, life), lambda _: self._fail(life))
            case kept_states.Effect.EXPIRE, _:
                self._do(partial(self._expire, life), lambda _: self.tell(KeptCause.RUN_TOLD))  # nobody else would
            case kept_states.Effect.SETTLE, _:
                self._do(self._settle, lambda _: self.tell(KeptCause.RUN_TOLD))

    def _note(self, life: Life, event: KeptEvent) -> None:
        """Store what the kept process did."""
        run, note, plan = self.run, self.note, self.plan
        match event:
            case events.Opened():
                self._put(lambda connection: runs.change(connection, run.run_id, process=note))
            case events.PromptSent() if plan is not None:
                argv, version = life.opened.argv if life.opened else (), plan.engine.version
                delivery = Delivery.NEW_PROCESS if plan.opens else Delivery.LIVING_PROCESS
                self._put(lambda connection: transitions.note_start(connection, run, argv, version, delivery))
            case events.AgentText():
                self._say(event.text)
            case Reported() if len(self._reported) < MAX_REPORTED:
                self._reported[replace(event, text=event.text[:MAX_REPORT])] = None

    def _ask(self, asked: events.PermissionAsked) -> None:
        """Ask the user for permission, unless the run is to be canceled."""
        question = Interaction("risk_ack", asked.prompt, asked.options, (), asked.context)
        columns: dict[str, Any] = {"wait_deadline_at": after(self.run.session_timeout_sec), "process": self.note}
        if self.life and (session := self._new_session(self.life.session_id)):  # the run may end while it waits
            columns["session"] = session
        is_asked = transitions.ask_permission(self.means.store, self.run, question, asked.request_id, **columns)
        self.tell(KeptCause.RUN_ASKS if is_asked else KeptCause.END)

    def _take_back(self, ended: events.TurnEnded) -> None:
        if transitions.drop_permission(self.means.store, self.run.run_id):
            self.turn(Answered(ended))
        else:
            self.tell(KeptCause.END)

    def _lose(self, life: Life) -> None:
        """Fail the run, if it waits for a decision, and the turn, whose process is gone."""
        if isinstance(end := life.end, events.Lost):
            log.log(logging.ERROR if end.ours else logging.INFO, "%s lost its process: %s", self.run.run_id, end.detail)
        self._fail_waiting(life, end)
        self._fail(life)

    def _fail(self, life: Life) -> None:
        self.turn(Failed(fails_turn(life.end, has_asked=life.has_asked)))

    def _expire(self, life: Life) -> None:
        if math.isinf(self.due):  # it was not set anew meanwhile
            self.tell(KeptCause.RUN_TOLD if self._fail_waiting(life, KeptCause.TOO_LATE) else KeptCause.RUN_GOES_ON)

    def _settle(self) -> None:
        if self.life and self.life.state is not KeptState.SETTLED:
            told = self._fail_waiting(self.life, self.life.end)
            self.tell(KeptCause.RUN_TOLD if told else KeptCause.RUN_GOES_ON)

    def _fail_waiting(self, life: Life, end: KeptEvent | None) -> bool:
        """Fail the run if it waits; False: a reply was first."""
        run, seconds = self.run, self.means.clock() - self.began
        decision = fails_waiting(end, run.session_timeout_sec)
        store, records = self.means.store, self.means.records
        return transitions.fail_waiting(store, records, run.run_id, decision, seconds, life.gone)

    def _new_session(self, session_id: str | None) -> RunSession | None:
        """Return what to store of a session id if it is new and a headless resume would accept it, too."""
        run, contract = self.run, self.plan.engine.contract if self.plan else None
        if run.session or contract is None or not contract.sticky.keeps_session_id or unsafe(session_id or ""):
            return None
        return stored_session(contract, session_id or "", run.turn_index)
