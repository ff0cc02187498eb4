"""Tests of the table of a turn: single stories, and a property of whatever may happen in any order."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.reference.server.orchestrator import state_tables
from turngate_reference.server.orchestrator.decide import INTERRUPTED, TurnResult
from turngate_reference.server.orchestrator.turn_states import (
    Answered,
    Effect,
    Failed,
    Judged,
    Marked,
    Played,
    Prepared,
    TurnCause,
    TurnEvent,
    TurnState,
    Written,
    step,
)
from turngate_reference.states import State

C = TurnCause
NOTHING: Any = None
PREPARED, MARKED, PLAYED, ANSWERED = Prepared(NOTHING), Marked(NOTHING), Played(NOTHING), Answered(NOTHING)
FAILED, JUDGED, WRITTEN = Failed(INTERRUPTED), Judged(INTERRUPTED, TurnResult()), Written(State.FAILED)
EVENTS = (PREPARED, MARKED, PLAYED, ANSWERED, FAILED, JUDGED, WRITTEN, *C)
ENDS: list[tuple[TurnEvent, str]] = [(JUDGED, "write"), (WRITTEN, "leave")]


def happened(events: list[TurnEvent]) -> tuple[TurnState, list[tuple[Effect, ...]]]:
    """Return the state of a new turn after events, and the effects of each."""
    state, effects = TurnState.PREPARING, list[tuple[Effect, ...]]()
    for event in events:
        state, done = step(state, event)
        effects.append(done)
    return state, effects


@pytest.mark.parametrize(
    "events",
    [
        [(PREPARED, "mark"), (MARKED, "play"), (PLAYED, "judge"), *ENDS],
        [(PREPARED, "mark"), (MARKED, "play"), (ANSWERED, "judge"), (FAILED, ""), *ENDS],
        # it fails on the way
        [(FAILED, "judge"), (PREPARED, ""), *ENDS],
        [(PREPARED, "mark"), (FAILED, "judge"), (MARKED, ""), *ENDS],
        [(PREPARED, "mark"), (MARKED, "play"), (FAILED, "judge"), (PLAYED, ""), *ENDS],
        # it is stopped: the end of its process decides, and later the mark in the store
        [(C.STOP, "stop"), (PREPARED, "mark"), (C.STOP, "stop"), (MARKED, "play"), (C.STOP, "stop"), (PLAYED, "judge")],
        [(FAILED, "judge"), (C.STOP, ""), *ENDS],
        # its kept process must be gone first
        [(FAILED, "judge"), (JUDGED, "write"), (C.MUST_END, "end process"), (FAILED, "write"), (WRITTEN, "leave")],
        # what it says can't be written
        [(PREPARED, "mark"), (MARKED, "play"), (PLAYED, "judge"), (JUDGED, "write"), *ENDS],
        # nothing of it can be written
        [(FAILED, "judge"), (JUDGED, "write"), (C.UNWRITTEN, "leave"), (WRITTEN, "")],
    ],
)
def test_each_story_ends_as_the_table_says(events: list[tuple[TurnEvent, str]]) -> None:
    """Each event has the effect beside it."""
    _, effects = happened([event for event, _ in events])
    assert [" ".join(done) for done in effects] == [effect for _, effect in events]


@given(st.lists(st.sampled_from(EVENTS), max_size=40))
def test_each_effect_comes_once_and_in_order(events: list[TurnEvent]) -> None:
    """Whatever happens; a turn can always be ended, and nothing happens after that."""
    state, effects = happened(events)
    done = [effect for each in effects for effect in each if effect is not Effect.STOP]
    once = [effect for effect in done if effect not in (Effect.WRITE, Effect.END_PROCESS)]
    order = [Effect.MARK, Effect.PLAY, Effect.JUDGE, Effect.LEAVE]
    assert once == sorted(set(once), key=order.index)
    assert (state is TurnState.ENDED) == (Effect.LEAVE in done)
    ended, _ = happened([*events, FAILED, JUDGED, FAILED, WRITTEN])
    assert ended is TurnState.ENDED
    assert step(ended, FAILED) == (TurnState.ENDED, ())


def test_the_page_shows_the_tables() -> None:
    """The documentation is up to date with the code."""
    text = state_tables.FILE.read_text("utf-8")
    assert state_tables.with_tables(text) == text
