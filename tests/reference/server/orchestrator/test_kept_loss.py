"""Tests of whom a turn blames for the loss of its process; `test_transitions.py` covers losses between turns."""

import pytest

from turngate_reference.server.orchestrator.kept_loss import loss_in_turn
from turngate_reference.server.transports.events import Lost

DIED = Lost("it has exited")
OURS = Lost("turngate failed", ours=True)


@pytest.mark.parametrize(
    "lost,first,later",
    [
        (DIED, "ENGINE_FAILED", "INTERACTION_PROCESS_LOST"),
        (OURS, "ORCHESTRATOR_ERROR", "ORCHESTRATOR_ERROR"),
        (None, "ORCHESTRATOR_RESTART_INTERRUPTED", "ORCHESTRATOR_RESTART_INTERRUPTED"),
    ],
)
def test_the_code_says_who_is_to_blame(lost: Lost | None, first: str, later: str) -> None:
    """Before the user was asked, it is the engine; afterwards, it is the loss, unless turngate caused that."""
    for has_asked, code in ((False, first), (True, later)):
        error = loss_in_turn(lost, has_asked=has_asked).error
        assert error
        assert error.code == code
