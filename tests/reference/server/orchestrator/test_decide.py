"""From a turn's result to the run's state."""

from typing import Any

import pytest

from turngate.model import AdapterTurnResult, Interaction, Mode, Outcome
from turngate_reference.server.orchestrator.decide import decide
from turngate_reference.server.states import TRANSITIONS, RunErrorCode, State

ASKED = AdapterTurnResult(Outcome.ASK_USER, interaction=Interaction("confirm", "Sure?"))
DONE = AdapterTurnResult(Outcome.FINAL, final_data={"x": 1})
WRONG = AdapterTurnResult(Outcome.ERROR, failure_reason="TURN_TIMEOUT: still running")


@pytest.mark.parametrize(
    "result,mode,more,expected",
    [
        (WRONG, Mode.INTERACTIVE, {}, (State.FAILED, "TURN_TIMEOUT")),
        (ASKED, Mode.AUTO, {}, (State.FAILED, "ASK_USER_IN_AUTO")),
        (ASKED, Mode.INTERACTIVE, {}, (State.WAITING_USER, None)),
        (ASKED, Mode.INTERACTIVE, {"can_wait": False}, (State.FAILED, "INTERACTION_PROCESS_LOST")),
        (DONE, Mode.AUTO, {}, (State.SUCCEEDED, None)),
        (DONE, Mode.AUTO, {"output_schema": {"required": ["y"]}}, (State.FAILED, "FINAL_DATA_INVALID")),
        (DONE, Mode.AUTO, {"output_schema": {"$ref": "#/nowhere"}}, (State.FAILED, "FINAL_DATA_INVALID")),
    ],
)
def test_the_first_that_applies_names_it(
    result: AdapterTurnResult, mode: Mode, more: dict[str, Any], expected: tuple[State, str | None]
) -> None:
    """What the turn reader found, then the mode, then the output schema."""
    decision = decide(result, mode, **{"can_wait": True, "output_schema": None} | more)
    assert (decision.state, decision.error and decision.error["code"]) == expected
    assert (State.RUNNING, decision.state) in TRANSITIONS


def test_every_failure_of_a_turn_has_a_code_of_a_run() -> None:
    """The words of the turn reader are words of the server."""
    from turngate.model import Failure  # noqa: PLC0415 - looked at here alone

    assert {failure.value for failure in Failure} <= {code.value for code in RunErrorCode}


def test_data_that_is_too_large_is_refused() -> None:
    """Final data is bounded."""
    huge = AdapterTurnResult(Outcome.FINAL, final_data={"x": "y" * (5 * 2**20)})
    decision = decide(huge, Mode.AUTO, can_wait=True, output_schema=None)
    assert decision.error
    assert decision.error["code"] == "FINAL_DATA_INVALID"
