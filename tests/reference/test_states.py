"""Tests of the table that says what moves a run from each state to which."""

from tests.tables import each
from turngate_reference.states import ENDED, TARGETS, TRANSITIONS, Cause, RunErrorCode, State


def test_each_cause_leads_to_one_state() -> None:
    """The state after a cause is known without the state before it, as the handle record needs it."""
    assert TARGETS.keys() == set(Cause)
    assert all(TARGETS[cause] is to for causes in TRANSITIONS.values() for cause, to in causes.items())


def test_every_run_can_reach_every_state_and_leaves_its_end_only_when_continued() -> None:
    """From `queued` a run can get everywhere; one that has ended can only be continued."""
    reached, new = set[State](), {State.QUEUED}
    while new:
        reached |= new
        new = {to for state in new for to in TRANSITIONS[state].values()} - reached
    assert reached == set(State)
    assert all([*TRANSITIONS[state]] == [Cause.CONTINUED] for state in ENDED)


def test_a_reply_that_no_process_got_is_returned_from_the_queue() -> None:
    """The claim of a turn without a process is undone, and only a queued run goes back to its question."""
    assert TRANSITIONS[State.RUNNING][Cause.NOT_STARTED] is State.QUEUED
    assert TRANSITIONS[State.QUEUED][Cause.REPLY_RETURNED] is State.WAITING_USER
    assert sum(Cause.REPLY_RETURNED in causes for causes in TRANSITIONS.values()) == 1


@each("code", RunErrorCode)
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
