"""Tests of the table that says what moves a run from each state to which."""

import pytest

from turngate_reference.states import ENDED, TARGETS, TRANSITIONS, Cause, RunErrorCode, State


def test_each_cause_leads_to_one_state() -> None:
    """The state after a cause is known without the state before it, as the handle record needs it."""
    assert TARGETS.keys() == set(Cause)
    assert all(TARGETS[cause] is to for causes in TRANSITIONS.values() for cause, to in causes.items())


def test_every_run_can_reach_every_state_and_leaves_none_that_has_ended() -> None:
    """From `queued` a run can get everywhere; of those that have ended, only a failed one can be continued."""
    reached, new = set[State](), {State.QUEUED}
    while new:
        reached |= new
        new = {to for state in new for to in TRANSITIONS[state].values()} - reached
    assert reached == set(State)
    assert {state: [*TRANSITIONS[state]] for state in ENDED} == {
        State.SUCCEEDED: [],
        State.FAILED: [Cause.CONTINUED],
        State.CANCELED: [],
    }


@pytest.mark.parametrize("code", RunErrorCode)
def test_each_error_code_has_a_cause_that_fails_the_run(code: RunErrorCode) -> None:
    """A run that waits fails only for want of a reply, a process or a session, or by a fault of ours."""
    assert TARGETS[code.cause] is State.FAILED
    assert (code.cause in TRANSITIONS[State.RUNNING]) == (code is not RunErrorCode.INTERACTION_WAIT_TIMEOUT)
    assert (code.cause in TRANSITIONS[State.WAITING_USER]) == (
        code
        in {
            RunErrorCode.INTERACTION_WAIT_TIMEOUT,
            RunErrorCode.INTERACTION_PROCESS_LOST,
            RunErrorCode.SESSION_RESUME_FAILED,
            RunErrorCode.ORCHESTRATOR_ERROR,
        }
    )
