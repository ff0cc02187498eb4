"""The document itself: valid, and at one with the code."""

import json
from typing import Any

import jsonschema
import pytest
import schemathesis

from tests.reference.caller import OUTSIDE, documented, schema
from turngate.contract import load
from turngate.model import Mode, Outcome, Repair
from turngate_reference.server.states import TRANSITIONS, RunErrorCode, State
from turngate_reference.server.web import openapi

OURS = openapi.document()["x-turngate"]
SCHEMAS = openapi.document()["components"]["schemas"]
NEVER = {"INTERNAL_ERROR"}


def enums(value: Any, name: str) -> list[Any]:
    """Return the values of a member of a schema."""
    found: list[Any] = openapi.resolved(SCHEMAS[value]["properties"][name])["enum"]
    return [each for each in found if each is not None]


def test_the_document_is_openapi() -> None:
    """It is valid by the schema of OpenAPI 3.1, and every schema in it by that of JSON Schema."""
    schemathesis.openapi.from_dict(openapi.document()).validate()
    for each in SCHEMAS.values():
        jsonschema.Draft202012Validator.check_schema(each)


def test_the_table_of_transitions_is_that_of_the_code() -> None:
    """The document lists each transition once, and no other."""
    listed = [(each["from"], each["to"]) for each in OURS["transitions"]]
    assert len(set(listed)) == len(listed)
    assert set(listed) == TRANSITIONS
    assert all(each["when"] for each in OURS["transitions"])


def test_the_table_of_run_errors_is_that_of_the_code() -> None:
    """The document says when each code occurs, and knows no other."""
    assert set(OURS["run_errors"]) == set(RunErrorCode) == set(enums("RunError", "code"))
    assert all(OURS["run_errors"].values())


def test_the_table_of_events_is_that_of_the_schema() -> None:
    """What each type of event means is told for every type there is."""
    assert set(OURS["events"]) == set(enums("Event", "event"))


@pytest.mark.parametrize(
    "values, in_code",
    [
        (SCHEMAS["State"]["enum"], State),
        (enums("CreateRun", "execution_mode"), Mode),
        (enums("Turn", "outcome"), Outcome),
        (enums("Turn", "repair_level"), Repair),
    ],
)
def test_enumerations_are_those_of_the_code(values: list[str], in_code: Any) -> None:
    """States, modes, outcomes and repair levels are the same words in the document and in the code."""
    assert set(values) == set(in_code)


def test_kinds_of_questions_are_those_of_the_envelope() -> None:
    """What an agent may ask, the API can show."""
    envelope = json.dumps(load.schema("envelope"))
    assert json.dumps(enums("Question", "kind")) in envelope


def test_every_problem_can_occur_somewhere() -> None:
    """The table and the operations know the same codes, with the same status."""
    problems = openapi.problems()
    assert {each.code for each in documented() if each.code} | OUTSIDE | NEVER == set(problems)
    for each in documented():
        assert not each.code or int(problems[each.code]["status"]) == each.status, each


def test_the_example_is_valid() -> None:
    """What the document shows as a request is one."""
    schema("CreateRun").validate(SCHEMAS["CreateRun"]["example"])


def test_every_operation_has_an_identity() -> None:
    """Each operation has an id of its own and a summary."""
    found = [each.definition for each in openapi.operations()]
    assert len({each["operationId"] for each in found}) == len(found)
    assert all(each["summary"] for each in found)
