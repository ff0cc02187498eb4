"""The states of a run, the one table of their transitions, and the codes with which a run fails."""

from enum import StrEnum


class State(StrEnum):
    """Where a run stands."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING_USER = "waiting_user"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


ENDED = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELED})

TRANSITIONS = frozenset(
    {
        (State.QUEUED, State.RUNNING),
        (State.QUEUED, State.CANCELED),
        (State.RUNNING, State.WAITING_USER),
        (State.RUNNING, State.SUCCEEDED),
        (State.RUNNING, State.FAILED),
        (State.RUNNING, State.CANCELED),
        (State.WAITING_USER, State.QUEUED),
        (State.WAITING_USER, State.RUNNING),
        (State.WAITING_USER, State.FAILED),
        (State.WAITING_USER, State.CANCELED),
    }
)


class RunErrorCode(StrEnum):
    """Why a run failed; `openapi.yaml` says when each occurs."""

    TURN_TIMEOUT = "TURN_TIMEOUT"
    ENGINE_FAILED = "ENGINE_FAILED"
    SESSION_RESUME_FAILED = "SESSION_RESUME_FAILED"
    ENVELOPE_INVALID = "ENVELOPE_INVALID"
    FINAL_DATA_INVALID = "FINAL_DATA_INVALID"
    ASK_USER_IN_AUTO = "ASK_USER_IN_AUTO"
    INTERACTION_WAIT_TIMEOUT = "INTERACTION_WAIT_TIMEOUT"
    INTERACTION_PROCESS_LOST = "INTERACTION_PROCESS_LOST"
    ORCHESTRATOR_RESTART_INTERRUPTED = "ORCHESTRATOR_RESTART_INTERRUPTED"
    TERMINAL_INTERRUPTED = "TERMINAL_INTERRUPTED"
    ENGINE_UNAVAILABLE = "ENGINE_UNAVAILABLE"
    PROMPT_REFUSED = "PROMPT_REFUSED"
    ORCHESTRATOR_ERROR = "ORCHESTRATOR_ERROR"
