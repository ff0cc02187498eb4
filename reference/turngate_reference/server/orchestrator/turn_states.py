"""The life of a turn: its states, what happens in each, and what is to be done then.

Theory of operation
===================

A turn begins when its run has been claimed, or when a reply has gone to the process that the run keeps. `step` takes
its state and an event, and returns the state that follows and the effects, in order. It starts nothing, waits for
nothing and asks no clock. `Owner` holds the turns, takes one event after the other, and carries the effects out.

*What is slow* happens outside of the owner, and comes back as an event: `prepare` finds the engine and makes the
command, `play` runs the engine to its end, `judge` applies the output schema and looks at the session store and at the
files. A turn that fails on the way is judged all the same, since its files may have changed.

*What is written* is tried again until the store allows it. `mark` says what the first turn has settled, and that a
process gets the reply from now on. Only when that is written the process starts, so that after a crash nobody sends the
reply again. `write` ends the turn. If what the turn says can't be written because of an error of ours, the turn is
judged once more, as failed. If `write` finds a request to cancel the run, it refuses as long as the run keeps a
process: a run whose turn goes on is canceled only when its process is gone.

*The process of a turn* is either its own, which `play` reads to the end, or one that the run keeps. Of the latter
`kept_states` tells the life. Its turn hears of two events only: it has answered, or it is gone and the turn has failed.

An event that the table doesn't list for a state came too late, and changes nothing: a cancel while the result is
written finds its mark in the store, and a process that dies after its answer has answered.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, TypeAlias

from msgspec import Struct

from turngate import Invocation
from turngate_reference.engine.attempt import Attempt, InstalledEngine
from turngate_reference.server.orchestrator.decide import Decision, TurnResult
from turngate_reference.server.orchestrator.workspace_files import Snapshot
from turngate_reference.server.store.runs import Run
from turngate_reference.server.transports.events import OpenRequest, TurnEnded
from turngate_reference.states import State


class TurnState(StrEnum):
    """Where a turn stands."""

    PREPARING = "preparing"  # the engine, its workspace and its session are looked at
    MARKING = "marking"  # that a process gets the prompt from now on is being written
    PLAYING = "playing"  # the engine works
    JUDGING = "judging"  # what it answered, and what it changed
    WRITING = "writing"
    ENDING = "ending"  # the process that the run keeps must be gone first
    ENDED = "ended"


class Plan(Struct, frozen=True):
    """What a turn needs. Either `command` starts its process, or `text` is the prompt of a kept one.

    `opens` is the process to keep, if none is there yet. `settled` are columns of the run that turn 1 decides, and
    `before` are the files before the turn.
    """

    run: Run
    engine: InstalledEngine
    env: Mapping[str, str]
    before: Snapshot
    command: Invocation | None = None
    text: str = ""
    opens: OpenRequest | None = None
    settled: Mapping[str, Any] = {}


class Prepared(Struct, frozen=True):
    """The turn can begin."""

    plan: Plan


class Marked(Struct, frozen=True):
    """What the plan says is in the store, and the turn's process may get the prompt."""

    plan: Plan


class Played(Struct, frozen=True):
    """The turn's own process has ended."""

    done: Attempt


class Answered(Struct, frozen=True):
    """The kept process has ended the turn."""

    ended: TurnEnded


class Failed(Struct, frozen=True):
    """The turn can't go on; `unsent`: its process was started, but got no prompt."""

    decision: Decision
    unsent: bool = False


class Judged(Struct, frozen=True):
    """What the turn means for its run is decided."""

    decision: Decision
    result: TurnResult


class Written(Struct, frozen=True):
    """The turn has ended in the store, and its run has this state; `counts`: nobody had ended the run before."""

    state: State
    counts: bool = True


class TurnCause(StrEnum):
    """What happens to a turn without more to tell."""

    STOP = "stop"  # the run is canceled, or the server ends
    MUST_END = "must end"  # the run is canceled, and has a process
    UNWRITTEN = "unwritten"  # the server ends, or not even the error can be written


TurnEvent: TypeAlias = Prepared | Marked | Played | Answered | Failed | Judged | Written | TurnCause
TurnEventKind: TypeAlias = TurnCause | type[Prepared | Marked | Played | Answered | Failed | Judged | Written]


class Effect(StrEnum):
    """What is to be done after an event, with what the event says."""

    MARK = "mark"
    PLAY = "play"  # start the process, or prompt the kept one
    STOP = "stop"  # end the turn's own process
    JUDGE = "judge"
    WRITE = "write"
    END_PROCESS = "end process"  # that the run keeps
    LEAVE = "leave"  # leave the process to the next turn, or the slot to the next run


_S, _E, _C = TurnState, Effect, TurnCause
_Row: TypeAlias = Mapping[TurnEventKind, tuple[TurnState, tuple[Effect, ...]]]


def _until_judged(state: TurnState) -> _Row:
    return {Failed: (_S.JUDGING, (_E.JUDGE,)), _C.STOP: (state, (_E.STOP,))}


TABLE: Mapping[TurnState, _Row] = {
    _S.PREPARING: {Prepared: (_S.MARKING, (_E.MARK,)), **_until_judged(_S.PREPARING)},
    _S.MARKING: {Marked: (_S.PLAYING, (_E.PLAY,)), **_until_judged(_S.MARKING)},
    _S.PLAYING: {
        Played: (_S.JUDGING, (_E.JUDGE,)),
        Answered: (_S.JUDGING, (_E.JUDGE,)),
        **_until_judged(_S.PLAYING),
    },
    _S.JUDGING: {Judged: (_S.WRITING, (_E.WRITE,))},
    _S.WRITING: {
        Judged: (_S.WRITING, (_E.WRITE,)),
        Written: (_S.ENDED, (_E.LEAVE,)),
        _C.UNWRITTEN: (_S.ENDED, (_E.LEAVE,)),
        _C.MUST_END: (_S.ENDING, (_E.END_PROCESS,)),
    },
    _S.ENDING: {Failed: (_S.WRITING, (_E.WRITE,))},
    _S.ENDED: {},
}


def step(state: TurnState, event: TurnEvent) -> tuple[TurnState, tuple[Effect, ...]]:
    """Return the state of a turn after an event, and what is to be done, in this order."""
    return TABLE[state].get(event if isinstance(event, TurnCause) else type(event), (state, ()))
