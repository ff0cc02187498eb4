"""The life of a kept process: its states, what happens in each, and what is to be done then.

Theory of operation
===================

A kept process serves the turns of one run, from its first turn to the end of the run. `step` takes its life and an
event, and returns the life that follows and the effects, which are to be carried out in this order. It starts nothing,
waits for nothing and asks no clock, so a test plays any order of events. `Owner` holds the lives, takes one event after
the other, and carries the effects out: at once what only passes something on, and in order, as soon as the store
allows, what writes. An event that the table doesn't list for a state came too late, and changes nothing: a decision
about an action of a turn that has ended, or the last words of a process.

*Whom it serves.* A turn, the next turn, or nobody once its run has ended. The states of a process that ends say which
of these it was.

*How it ends.* There is a word for each step, and each step happens once:

- It is *lost* if it can't go on, by itself. The host then ends what is left of it.
- It is *ended* by turngate: after its run, at a cancel, at a deadline, or with the server.
- It is *gone* when no process is left. Only now its turn is told, since a reader who learns that a run has ended may
  rely on that nothing works in its directory any more. A run that waits may end before, at its deadline or by a cancel:
  its process does nothing meanwhile.
- It is *settled* when its run has been told and its slot is free. Nobody knows it any more.

*What its run hears.* Two may move the run of a process that waits: a reply, and the deadline or the loss. Both ask the
store, where the first to be committed wins. So `expire` and `settle` are questions. If the run still waited, it
has failed by now, and "run told" follows. If a reply was first, "run goes on" follows: the run has a turn, which begins
in this process, whatever is left of it, and hears of a loss as if it had come in the turn. A loss in a turn fails the
turn, or the run if that waits for the user's decision.

*Deadlines.* There is one at a time. `limit` sets it when a turn begins, when the user can decide, when the user has
decided, and when the turn leaves the process. When it passes, a turn is at fault while it works, and the user while it
asks or waits. It is void if it was set anew before the owner came to it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from turngate import Reported
from turngate_reference.server.transports import events
from turngate_reference.server.transports.events import Gone, Lost, Opened


class KeptState(StrEnum):
    """Where a kept process stands."""

    STARTING = "starting"  # the engine has got nothing yet
    WORKING = "working"
    ASKING = "asking"  # the user decides about an action
    ANSWERED = "answered"  # the turn has ended, and what came of it is being written
    WAITING = "waiting"  # for the next turn
    ENDING_IN_TURN = "ending in a turn"
    ENDING_BETWEEN_TURNS = "ending between turns"
    ENDING_AFTER_RUN = "ending after the run"
    GONE_IN_TURN = "gone in a turn"
    GONE_BETWEEN_TURNS = "gone between turns"
    GONE_AFTER_RUN = "gone after the run"
    SETTLED = "settled"


class Decided(Struct, frozen=True):
    """The user has decided about an action."""

    request_id: str
    option: str


class KeptCause(StrEnum):
    """What happens to a process from outside."""

    TURN_BEGUN = "turn begun"  # by a reply
    RUN_ASKS = "run asks"  # the user can decide from now on
    RUN_WAITS = "run waits"  # the turn leaves the process to the next one
    RUN_ENDED = "run ended"  # the turn leaves the process, and no other will come
    TOO_LATE = "too late"  # the deadline has passed
    END = "end"  # it must not go on
    RUN_TOLD = "run told"  # it has failed for want of a reply or of its process, or had ended before
    RUN_GOES_ON = "run goes on"  # a reply was first, and its turn will begin in the process


KeptEvent: TypeAlias = events.ProcessEvent | Decided | KeptCause
# each `KeptCause`, and the type of any other event
EventKind: TypeAlias = KeptCause | type[events.ProcessEvent | Decided]


class Effect(StrEnum):
    """What is to be done after an event, with what the event says."""

    PROMPT = "prompt"  # send the prompt of the turn
    DECIDE = "decide"  # pass the user's decision on
    END = "end"  # end the whole tree
    LIMIT = "limit"  # set the deadline
    RELEASE = "release"  # forget the process, and free its slot
    # from here on: what writes to the store
    NOTE = "note"  # store what the process did
    ASK = "ask"  # let the run wait for the user's decision
    TAKE_BACK = "take back"  # the question, since the turn has ended without the decision; then as `finish`
    FINISH = "finish"  # decide what the turn's answer means
    FAIL = "fail"  # the turn, since its process is gone, or its run if that waits
    EXPIRE = "expire"  # fail the run if it still waits
    SETTLE = "settle"  # fail the run if it still waits, and store that its process is gone


_S, _E, _C = KeptState, Effect, KeptCause
_Row: TypeAlias = Mapping[EventKind, tuple[KeptState, tuple[Effect, ...]]]
_ENDS: _Row = {
    Lost: (_S.ENDING_IN_TURN, ()),
    _C.END: (_S.ENDING_IN_TURN, (_E.END,)),
    Gone: (_S.GONE_IN_TURN, (_E.FAIL,)),
    # the turn has failed in turngate
    _C.RUN_WAITS: (_S.ENDING_BETWEEN_TURNS, (_E.END,)),
    _C.RUN_ENDED: (_S.ENDING_AFTER_RUN, (_E.END,)),
}


def _says(state: KeptState) -> _Row:
    return dict.fromkeys((events.AgentText, Reported), (state, (_E.NOTE,)))


TABLE: Mapping[KeptState, _Row] = {
    _S.STARTING: {
        **_says(_S.STARTING),
        Opened: (_S.WORKING, (_E.NOTE, _E.PROMPT)),
        _C.TOO_LATE: (_S.ENDING_IN_TURN, (_E.END,)),
        **_ENDS,
    },
    _S.WORKING: {
        **_says(_S.WORKING),
        events.PromptSent: (_S.WORKING, (_E.NOTE,)),
        events.PermissionAsked: (_S.ASKING, (_E.ASK,)),
        events.TurnEnded: (_S.ANSWERED, (_E.FINISH,)),
        _C.TOO_LATE: (_S.ENDING_IN_TURN, (_E.END,)),
        **_ENDS,
    },
    _S.ASKING: {
        **_says(_S.ASKING),
        _C.RUN_ASKS: (_S.ASKING, (_E.LIMIT,)),
        Decided: (_S.WORKING, (_E.LIMIT, _E.DECIDE)),
        events.TurnEnded: (_S.ANSWERED, (_E.TAKE_BACK,)),
        _C.TOO_LATE: (_S.ASKING, (_E.EXPIRE,)),
        _C.RUN_TOLD: (_S.ENDING_IN_TURN, (_E.END,)),
        **_ENDS,
    },
    _S.ANSWERED: {**_ENDS, _C.RUN_WAITS: (_S.WAITING, (_E.LIMIT,))},
    _S.WAITING: {
        _C.TURN_BEGUN: (_S.WORKING, (_E.LIMIT, _E.PROMPT)),
        _C.TOO_LATE: (_S.WAITING, (_E.EXPIRE,)),
        _C.RUN_TOLD: (_S.ENDING_BETWEEN_TURNS, (_E.END,)),
        Lost: (_S.ENDING_BETWEEN_TURNS, ()),
        _C.END: (_S.ENDING_BETWEEN_TURNS, (_E.END,)),
        Gone: (_S.GONE_BETWEEN_TURNS, (_E.SETTLE,)),
        _C.RUN_ENDED: (_S.ENDING_AFTER_RUN, (_E.END,)),
    },
    _S.ENDING_IN_TURN: {
        Gone: (_S.GONE_IN_TURN, (_E.FAIL,)),
        _C.RUN_WAITS: (_S.ENDING_BETWEEN_TURNS, ()),
        _C.RUN_ENDED: (_S.ENDING_AFTER_RUN, ()),
    },
    _S.ENDING_BETWEEN_TURNS: {
        _C.TURN_BEGUN: (_S.ENDING_IN_TURN, ()),
        Gone: (_S.GONE_BETWEEN_TURNS, (_E.SETTLE,)),
        _C.RUN_ENDED: (_S.ENDING_AFTER_RUN, ()),
    },
    _S.ENDING_AFTER_RUN: {Gone: (_S.GONE_AFTER_RUN, (_E.SETTLE,))},
    _S.GONE_IN_TURN: {
        _C.RUN_WAITS: (_S.GONE_BETWEEN_TURNS, (_E.SETTLE,)),
        _C.RUN_ENDED: (_S.GONE_AFTER_RUN, (_E.SETTLE,)),
    },
    _S.GONE_BETWEEN_TURNS: {
        _C.TURN_BEGUN: (_S.GONE_IN_TURN, (_E.FAIL,)),
        _C.RUN_TOLD: (_S.SETTLED, (_E.RELEASE,)),
        _C.END: (_S.GONE_BETWEEN_TURNS, (_E.SETTLE,)),  # the turn of a reply could not begin
        _C.RUN_ENDED: (_S.GONE_AFTER_RUN, (_E.SETTLE,)),
    },
    _S.GONE_AFTER_RUN: dict.fromkeys((_C.RUN_TOLD, _C.RUN_GOES_ON), (_S.SETTLED, (_E.RELEASE,))),
    _S.SETTLED: {},
}


def _listing(event: EventKind) -> frozenset[KeptState]:
    return frozenset(state for state, row in TABLE.items() if event in row)


_USABLE, IN_TURN, BETWEEN_TURNS = _listing(Lost), _listing(_C.RUN_WAITS), _listing(_C.TURN_BEGUN)
GONE = frozenset(KeptState) - _listing(Gone)


class Life(Struct, frozen=True):
    """What is known of a kept process: `end` is the event that began its end, `has_asked` says that a user was asked.

    `opened` and `session_id` are None until it says so.
    """

    state: KeptState = KeptState.STARTING
    opened: Opened | None = None
    session_id: str | None = None
    has_asked: bool = False
    end: KeptEvent | None = None
    gone: Gone | None = None


def step(life: Life, event: KeptEvent) -> tuple[Life, tuple[Effect, ...]]:
    """Return the life of a process after an event, and what is to be done, in this order."""
    state, effects = TABLE[life.state].get(event if isinstance(event, KeptCause) else type(event), (life.state, ()))
    if life.state in _USABLE and state not in _USABLE:
        life = replace(life, end=event)
    match event:
        case Opened():
            life = replace(life, opened=event, session_id=event.session_id)
        case events.TurnEnded():
            life = replace(life, session_id=event.session_id)
        case events.PermissionAsked() | KeptCause.RUN_WAITS:
            life = replace(life, has_asked=True)
        case Gone():
            life = replace(life, gone=event)
    return replace(life, state=state), effects
