"""The states of a run, the table of transitions between them, and the error codes of failed runs."""

from enum import StrEnum


class State(StrEnum):
    """The state of a run."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING_USER = "waiting_user"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELED = "canceled"


ENDED = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELED})

_STEPS = {
    State.QUEUED: (State.RUNNING, State.CANCELED),
    State.RUNNING: (State.WAITING_USER, *ENDED),
    State.WAITING_USER: (State.QUEUED, State.RUNNING, State.FAILED, State.CANCELED),
}
TRANSITIONS = frozenset((source, to) for source, targets in _STEPS.items() for to in targets)


class Delivery(StrEnum):
    """How the prompt of a turn reached the engine: in a process started for it, or in one that was already there."""

    NEW_PROCESS = "new_process"
    LIVING_PROCESS = "living_process"


class RunErrorCode(StrEnum):
    """Why a run failed; `openapi.yaml` says when each occurs."""

    TURN_TIMEOUT = "TURN_TIMEOUT"
    ENGINE_FAILED = "ENGINE_FAILED"
    SESSION_RESUME_FAILED = "SESSION_RESUME_FAILED"
    ENVELOPE_INVALID = "ENVELOPE_INVALID"
    FINAL_DATA_INVALID = "FINAL_DATA_INVALID"
    SCHEMA_TOO_COSTLY = "SCHEMA_TOO_COSTLY"
    ASK_USER_IN_AUTO = "ASK_USER_IN_AUTO"
    INTERACTION_WAIT_TIMEOUT = "INTERACTION_WAIT_TIMEOUT"
    INTERACTION_PROCESS_LOST = "INTERACTION_PROCESS_LOST"
    ORCHESTRATOR_RESTART_INTERRUPTED = "ORCHESTRATOR_RESTART_INTERRUPTED"
    TERMINAL_INTERRUPTED = "TERMINAL_INTERRUPTED"
    ENGINE_UNAVAILABLE = "ENGINE_UNAVAILABLE"
    ENGINE_UNSAFE = "ENGINE_UNSAFE"
    PROMPT_REFUSED = "PROMPT_REFUSED"
    OPTION_REFUSED = "OPTION_REFUSED"
    ORCHESTRATOR_ERROR = "ORCHESTRATOR_ERROR"
