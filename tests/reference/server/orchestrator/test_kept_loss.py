"""Tests of whom a turn blames for the end of its process, and what a run that waits is told."""

from tests.tables import each
from turngate_reference.server.orchestrator.kept_loss import fails_turn, fails_waiting
from turngate_reference.server.orchestrator.kept_states import KeptCause, KeptEvent
from turngate_reference.server.transports.events import Lost

LOST = "INTERACTION_PROCESS_LOST"


@each(
    "end, first, later, waiting",
    [
        (Lost("it has exited"), "ENGINE_FAILED", LOST, LOST),
        (Lost("turngate failed", ours=True), "ORCHESTRATOR_ERROR", "ORCHESTRATOR_ERROR", LOST),
        (KeptCause.END, "ORCHESTRATOR_RESTART_INTERRUPTED", "ORCHESTRATOR_RESTART_INTERRUPTED", LOST),
        (KeptCause.TOO_LATE, "TURN_TIMEOUT", "TURN_TIMEOUT", "INTERACTION_WAIT_TIMEOUT"),
    ],
)
def test_the_code_says_who_is_to_blame(end: KeptEvent, first: str, later: str, waiting: str) -> None:
    """Before the user was asked, it is the engine; afterwards, it is the loss, unless turngate caused that."""
    decided = (fails_turn(end, has_asked=False), fails_turn(end, has_asked=True), fails_waiting(end, 60))
    assert [decision.error and decision.error.code for decision in decided] == [first, later, waiting]
