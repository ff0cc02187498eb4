"""Tests of the table of a kept process: single stories, and a property of whatever may happen in any order."""

from collections import Counter, deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.tables import each
from turngate import Reported
from turngate_reference.server.orchestrator import kept_states
from turngate_reference.server.orchestrator.kept_states import (
    BETWEEN_TURNS,
    GONE,
    Decided,
    Effect,
    KeptCause,
    KeptEvent,
    KeptState,
    Life,
    step,
)
from turngate_reference.server.transports.events import (
    AgentText,
    Gone,
    Lost,
    Opened,
    PermissionAsked,
    PromptSent,
    TurnEnded,
)

C = KeptCause
OPENED, SENT, SAID = Opened(7, 1.0, "session", ("app-server",)), PromptSent(), AgentText("hello")
ASKED, DECIDED = PermissionAsked("1", "write?", ("accept", "decline"), {}), Decided("1", "accept")
ENDED, LOST, IS_GONE = TurnEnded("?", None, "session", declined=False), Lost("it has exited"), Gone(-9)
SAYS_MORE = Reported("denied", "shell")
WORKS = (OPENED, SENT)
TURNS = ((), WORKS, (*WORKS, ASKED), (*WORKS, ENDED))
WAITS = (*WORKS, ENDED, C.RUN_WAITS)


def after(*happened: KeptEvent) -> tuple[Life, list[str]]:
    """Return the life of a new process after events, and the effects of the last one."""
    life, effects = Life(), tuple[Effect, ...]()
    for event in happened:
        life, effects = step(life, event)
    return life, [*effects]


@each(
    "before, events",
    [
        ((), [(OPENED, "note prompt"), (SENT, "note"), (ENDED, "finish"), (C.RUN_WAITS, "limit")]),
        *((before, [(SAID, "note"), (SAYS_MORE, "note")]) for before in TURNS[:3]),
        # a deadline between turns, and in each kind of turn
        (WAITS, [(C.TOO_LATE, "expire"), (C.RUN_TOLD, "end"), (IS_GONE, "settle"), (C.RUN_TOLD, "release")]),
        (WAITS, [(C.TOO_LATE, "expire"), (C.RUN_GOES_ON, ""), (C.TURN_BEGUN, "limit prompt"), (SENT, "note")]),
        ((), [(C.TOO_LATE, "end"), (OPENED, ""), (IS_GONE, "fail")]),
        (
            WORKS,
            [(C.TOO_LATE, "end"), (ENDED, ""), (IS_GONE, "fail"), (C.RUN_ENDED, "settle"), (C.RUN_TOLD, "release")],
        ),
        ((*WORKS, ASKED), [(C.TOO_LATE, "expire"), (C.END, "end"), (IS_GONE, "fail"), (C.RUN_ENDED, "settle")]),
        ((*WORKS, ENDED), [(C.TOO_LATE, ""), (C.RUN_WAITS, "limit")]),
        # each kind of end in each kind of turn
        *((before, [(LOST, ""), (C.END, ""), (IS_GONE, "fail"), (C.RUN_ENDED, "settle")]) for before in TURNS),
        *((before, [(C.END, "end"), (IS_GONE, "fail"), (C.RUN_WAITS, "settle")]) for before in TURNS),
        *((before, [(C.RUN_ENDED, "end"), (IS_GONE, "settle"), (C.RUN_TOLD, "release")]) for before in TURNS),
        *((before, [(IS_GONE, "fail")]) for before in TURNS),
        # a loss: the turn hears of it once nothing is left, even if the turn begins later
        (WORKS, [(LOST, ""), (SAID, ""), (IS_GONE, "fail")]),
        (WAITS, [(LOST, ""), (IS_GONE, "settle"), (C.RUN_TOLD, "release")]),
        (WAITS, [(LOST, ""), (C.TURN_BEGUN, ""), (IS_GONE, "fail")]),
        (
            WAITS,
            [(LOST, ""), (IS_GONE, "settle"), (C.RUN_GOES_ON, ""), (C.TURN_BEGUN, "fail"), (C.RUN_ENDED, "settle")],
        ),
        ((*WORKS, ENDED, LOST), [(C.RUN_WAITS, ""), (IS_GONE, "settle")]),
        ((*WORKS, ENDED, LOST), [(C.RUN_ENDED, ""), (IS_GONE, "settle"), (C.RUN_GOES_ON, "release")]),
        # the end of a run, and what is left if its reply can't begin a turn
        (WAITS, [(C.RUN_ENDED, "end"), (IS_GONE, "settle")]),
        (WAITS, [(LOST, ""), (C.RUN_ENDED, ""), (IS_GONE, "settle"), (C.RUN_GOES_ON, "release")]),
        (WAITS, [(IS_GONE, "settle"), (C.RUN_ENDED, "settle"), (C.RUN_TOLD, "release")]),
        (WAITS, [(C.END, "end"), (C.END, ""), (IS_GONE, "settle"), (C.END, "settle"), (C.RUN_TOLD, "release")]),
        # permissions: one that the engine did not wait for is taken back, and what it says between turns is nobody's
        (WORKS, [(ASKED, "ask"), (C.RUN_ASKS, "limit"), (DECIDED, "limit decide"), (ENDED, "finish")]),
        (WORKS, [(ASKED, "ask"), (ENDED, "take back"), (C.RUN_ASKS, ""), (DECIDED, ""), (C.RUN_WAITS, "limit")]),
        (WAITS, [(SAID, ""), (ASKED, ""), (DECIDED, "")]),
        # a turn whose result can't be stored
        *((before, [(C.RUN_WAITS, "end"), (IS_GONE, "settle")]) for before in TURNS[:3]),
    ],
)
def test_each_story_ends_as_the_table_says(before: tuple[KeptEvent, ...], events: list[tuple[KeptEvent, str]]) -> None:
    """Each event has the effects beside it, in this order."""
    told = list(before)
    for event, effects in events:
        told.append(event)
        assert " ".join(after(*told)[1]) == effects, event


def test_the_first_cause_of_an_end_counts() -> None:
    """A process that dies while it is ended at its deadline was too late, and its exit code is known."""
    life, _ = after(*WORKS, C.TOO_LATE, LOST, IS_GONE)
    assert (life.end, life.gone, life.opened, life.has_asked) == (C.TOO_LATE, IS_GONE, OPENED, False)
    assert after(*WAITS)[0].has_asked


RARELY = st.sampled_from([False] * 7 + [True])


class AnyOrder(RuleBasedStateMachine):
    """A run, the host of its process, its turns and its owner, in any order.

    `run` is what the store says of the run, `asks` what its question is about, and `told` counts its ends.
    """

    def __init__(self) -> None:
        super().__init__()
        self.begin()

    @precondition(lambda self: self.life.state is KeptState.SETTLED)
    @rule()
    def begin(self) -> None:
        """Another run begins."""
        self.life, self.count, self.is_lost = Life(), Counter[Effect](), False
        self.run, self.asks, self.told = "running", "", 0
        self.turn, self.leaves, self.replied = True, False, False
        self.orders, self.todo = deque[Effect](), list[Effect]()
        self.due = True

    def _do(self, event: KeptEvent) -> None:
        """Take an event, as `LiveRun` does, and check what must be done."""
        before = self.life
        self.life, effects = step(before, event)
        for effect in effects:
            self.count[effect] += 1
            if effect in (Effect.PROMPT, Effect.DECIDE):
                assert before.end is None, "nothing is sent to a process that ends"
            elif effect is Effect.LIMIT:
                self.due = True
            elif effect is Effect.END:
                assert before.gone is None
                assert self.count[effect] == 1
            elif effect is Effect.RELEASE:
                assert (self.life.gone is not None, self.run, self.turn) == (True, "ended", False)
            elif self.life.state in kept_states.IN_TURN:
                self.orders.append(effect)
            else:
                self.todo = [effect]
        if event in (C.END, C.RUN_ENDED, LOST, IS_GONE):
            assert self.life.end, "it must not go on"

    def _end(self) -> None:
        self.run, self.told = "ended", self.told + 1

    @property
    def is_dying(self) -> bool:
        """Whether the host is about to report that the process is gone."""
        return self.life.gone is None and (bool(self.count[Effect.END]) or self.is_lost)

    @precondition(lambda self: self.life.gone is None)
    @rule(event=st.sampled_from([SENT, SAID, ASKED, ENDED]))
    def host_reports(self, event: KeptEvent) -> None:
        """The process says something, perhaps its last words."""
        self._do(event if self.life.opened else OPENED)

    @precondition(lambda self: self.life.gone is None)
    @rule(happens=RARELY)
    def host_loses_it(self, *, happens: bool) -> None:
        """The process can't go on."""
        if happens:
            self.is_lost = True
            self._do(LOST)

    @precondition(lambda self: self.life.gone is None)
    @rule(unasked=RARELY)
    def host_reports_the_end(self, *, unasked: bool) -> None:
        """No process is left."""
        if self.is_dying or unasked:
            self._do(IS_GONE)

    @precondition(lambda self: self.due)
    @rule(happens=RARELY)
    def deadline(self, *, happens: bool) -> None:
        """The deadline passes, perhaps of a turn or a wait that has just ended."""
        if happens:
            self.due = False
            self._do(C.TOO_LATE)

    @precondition(lambda self: self.turn and self.orders and not self.leaves)
    @rule(result=st.sampled_from(["waiting", "ended"]))
    def turn_works(self, result: str) -> None:
        """The turn carries out an order."""
        match self.orders.popleft():
            case Effect.ASK if self.run == "running":
                self.run, self.asks = "waiting", "permission"
                self._do(C.RUN_ASKS)
            case Effect.TAKE_BACK | Effect.FINISH if self.run != "ended":
                self.run, self.asks, self.leaves = result, "turn", True
                self.told += result == "ended"
            case Effect.EXPIRE if self.run == "running" or self.due:
                pass
            case Effect.EXPIRE | Effect.FAIL | Effect.TAKE_BACK | Effect.FINISH:
                if self.run != "ended":
                    self._end()
                self.leaves = True

    @precondition(lambda self: self.turn and not self.leaves)
    @rule(happens=RARELY)
    def turn_breaks(self, *, happens: bool) -> None:
        """An error of ours fails the turn."""
        if happens:
            if self.run != "ended":
                self._end()
            self.leaves = True

    @precondition(lambda self: self.leaves)
    @rule()
    def turn_leaves(self) -> None:
        """The turn has written what came of it."""
        self.turn = self.leaves = False
        self._do(C.RUN_ENDED if self.run == "ended" else C.RUN_WAITS)

    @precondition(lambda self: self.run == "waiting")
    @rule()
    def user_replies(self) -> None:
        """A reply is committed."""
        self.run = "running"
        if self.asks == "permission":
            self._do(DECIDED)
        else:
            self.replied = True

    @precondition(lambda self: self.replied and not self.turn)
    @rule(broken=RARELY, how=st.sampled_from([C.END, C.RUN_ENDED]))
    def next_turn(self, *, broken: bool, how: KeptCause) -> None:
        """The turn of a reply begins, or fails before: it gets no thread, or no prompt can be made for it."""
        self.replied = False
        if self.run == "running" and not broken:
            assert self.life.state in BETWEEN_TURNS, "a reply finds the process, or what is left of it"
            self.turn, self.orders, self.todo = True, deque(), []
            self._do(C.TURN_BEGUN)
        else:
            if self.run != "ended":
                self._end()
            self._do(how)

    @rule(happens=RARELY)
    def user_cancels(self, *, happens: bool) -> None:
        """A run that waits is canceled at once; the turn of a running one ends with its process."""
        if happens:
            if self.run == "waiting":
                self._end()
            self._do(C.END)

    @precondition(lambda self: self.todo)
    @rule(locked=st.booleans())
    def owner_works(self, *, locked: bool) -> None:
        """The owner carries out what is left to do, if the store can be written."""
        if locked:
            return
        self.todo = []
        if self.run == "waiting":
            self._end()
        self._do(C.RUN_GOES_ON if self.run == "running" else C.RUN_TOLD)

    @invariant()
    def somebody_owns_it(self) -> None:
        """The states name the owner, and a process that must end was lost, or is being ended."""
        assert (self.life.state in kept_states.IN_TURN) == self.turn
        assert (self.life.state in GONE) == (self.life.gone is not None)
        assert self.life.end is None or self.life.gone or self.is_dying
        assert self.told <= 1

    def teardown(self) -> None:
        """The server ends: the run is told once, and the process is forgotten once."""
        self._do(C.END)
        while self.life.state is not KeptState.SETTLED:
            if self.is_dying:
                self.host_reports_the_end(unasked=False)
            elif self.leaves:
                self.turn_leaves()
            elif self.turn:
                assert self.orders, "the turn would wait for ever"
                self.turn_works("ended")
            elif self.replied:
                self.next_turn(broken=False, how=C.END)
            else:
                assert self.todo, "nobody would settle it"
                self.owner_works(locked=False)
        assert (self.run, self.told, self.count[Effect.RELEASE]) == ("ended", 1, 1)


AnyOrder.TestCase.settings = settings(stateful_step_count=60)
TestAnyOrder = AnyOrder.TestCase
