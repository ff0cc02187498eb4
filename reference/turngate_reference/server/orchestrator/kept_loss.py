"""What the end of a kept process means for its turn, or for its run if that waits for the user."""

from turngate_reference.server.orchestrator.decide import INTERRUPTED, UNANSWERABLE, Decision, failed
from turngate_reference.server.orchestrator.kept_states import KeptCause, KeptEvent
from turngate_reference.server.transports.events import Lost
from turngate_reference.states import RunErrorCode


def fails_turn(end: KeptEvent | None, *, has_asked: bool) -> Decision:
    """Decide for a turn whose process is gone; `end` is what began its end, `has_asked`: the user was asked before."""
    match end:
        case KeptCause.TOO_LATE:
            return failed(RunErrorCode.TURN_TIMEOUT, "the engine was still running at its deadline")
        case Lost(detail, ours=True):
            return failed(RunErrorCode.ORCHESTRATOR_ERROR, detail)
        case Lost(detail):
            return failed(RunErrorCode.INTERACTION_PROCESS_LOST if has_asked else RunErrorCode.ENGINE_FAILED, detail)
    return INTERRUPTED


def fails_waiting(end: KeptEvent | None, seconds: int) -> Decision:
    """Decide for a run that waits for a reply, which can't come any more; the wait may last this many seconds."""
    if end is KeptCause.TOO_LATE:
        return failed(RunErrorCode.INTERACTION_WAIT_TIMEOUT, f"no reply came within {seconds} seconds")
    return failed(RunErrorCode.INTERACTION_PROCESS_LOST, end.detail) if isinstance(end, Lost) else UNANSWERABLE
