"""From a turn's result to the run's state."""

from typing import Any

import pytest

from turngate.model import AdapterTurnResult, Interaction, Mode, Outcome
from turngate_reference.server.orchestrator.decide import check_output_schema, decide
from turngate_reference.server.states import TRANSITIONS, RunErrorCode, State

ASKED = AdapterTurnResult(Outcome.ASK_USER, interaction=Interaction("confirm", "Sure?"))
DONE = AdapterTurnResult(Outcome.FINAL, final_data={"x": 1})
WRONG = AdapterTurnResult(Outcome.ERROR, failure_reason="TURN_TIMEOUT: still running")


@pytest.mark.parametrize(
    "result,mode,more,expected",
    [
        (WRONG, Mode.AUTO, {"canceled": True}, (State.CANCELED, None)),
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
    """Canceled, then what the turn reader found, then the mode, then the output schema."""
    decision = decide(result, mode, **{"canceled": False, "can_wait": True, "output_schema": None} | more)
    assert (decision.state, decision.error and decision.error["code"]) == expected
    assert (State.RUNNING, decision.state) in TRANSITIONS


def test_every_failure_of_a_turn_has_a_code_of_a_run() -> None:
    """The words of the turn reader are words of the server."""
    from turngate.model import Failure  # noqa: PLC0415 - looked at here alone

    assert {failure.value for failure in Failure} <= {code.value for code in RunErrorCode}


def test_data_that_is_too_large_is_refused() -> None:
    """Final data is bounded."""
    huge = AdapterTurnResult(Outcome.FINAL, final_data={"x": "y" * (5 * 2**20)})
    decision = decide(huge, Mode.AUTO, canceled=False, can_wait=True, output_schema=None)
    assert decision.error
    assert decision.error["code"] == "FINAL_DATA_INVALID"


@pytest.mark.parametrize("schema,said", [
    ({"properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}, "leads outside"),
    ({"items": {"$ref": "#/nowhere"}}, "nowhere"),
    ({"$defs": {"unused": {"$dynamicRef": "#nowhere"}}}, "nowhere"),
    ({"properties": {"a": {"$ref": "#/properties/a"}}}, "without end"),
    ({"properties": {"a": {"$ref": "#/properties/b"}, "b": {"anyOf": [{"$ref": "#/properties/a"}]}}}, "without end"),
    ({"properties": {"a": {"$id": "b", "$ref": "#/properties/a"}}}, "nowhere"),
    ({"properties": {"a": {"$ref": "#/required"}}, "required": ["a"]}, "not of type"),
    ({"properties": {"a": {"$ref": "#/elsewhere"}}, "elsewhere": {"type": "no such"}}, "$.type"),
    ({"properties": {"a": {"$ref": "#/elsewhere"}}, "elsewhere": {"not": {"$ref": "#/nowhere"}}}, "nowhere"),
    ({"properties": {"a": {"$ref": "http://[::1"}}}, "nowhere"),
])  # fmt: skip
def test_references_are_followed_before_a_run_is_taken(schema: dict[str, Any], said: str) -> None:
    """However deep a reference stands, it must lead to a schema inside the schema, and not back to itself."""
    assert said in (check_output_schema(schema) or "")


@pytest.mark.parametrize("schema", [
    {"$ref": "#/$defs/list", "$defs": {"list": {"properties": {"next": {"$ref": "#/$defs/list"}}}}},
    {"$id": "http://a/b", "$defs": {"x": {"$id": "c", "$anchor": "y"}}, "properties": {"p": {"$ref": "c#y"}}},
    {"$dynamicAnchor": "node", "items": {"$dynamicRef": "#node"}},
    {"properties": {"a": {"$ref": "#/elsewhere"}}, "elsewhere": {"type": "string"}},
    {"properties": {"$ref": {"type": "string"}}},
    {"enum": [{"$ref": "#/nowhere"}]},
    {"anyOf": [{"type": "string"}, {"items": {"$ref": "#"}}]},
])  # fmt: skip
def test_references_that_come_to_an_end_are_taken(schema: dict[str, Any]) -> None:
    """Lists and trees may be described, and what only looks like a reference is none."""
    assert check_output_schema(schema) is None
