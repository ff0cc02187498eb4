import json
import subprocess
import sys
from typing import Any

import pytest

from tests.patience import PATIENCE
from tests.tables import each
from turngate_reference.server.output_schema import worker
from turngate_reference.server.output_schema.worker import data_flaw, schema_flaw


@each(
    "schema, said",
    [
        ({"properties": {"a": {"$ref": "http://127.0.0.1:9/x"}}}, "external"),
        ({"items": {"$ref": "#/nowhere"}}, "can't be resolved"),
        ({"$defs": {"unused": {"$dynamicRef": "#nowhere"}}}, "can't be resolved"),
        ({"properties": {"a": {"$ref": "#/properties/a"}}}, "endlessly"),
        ({"properties": {"a": {"$ref": "#/properties/b"}, "b": {"anyOf": [{"$ref": "#/properties/a"}]}}}, "endlessly"),
        ({"properties": {"a": {"$id": "b", "$ref": "#/properties/a"}}}, "can't be resolved"),
        ({"properties": {"a": {"$ref": "#/required"}}, "required": ["a"]}, "not of type"),
        ({"properties": {"a": {"$ref": "#/elsewhere"}}, "elsewhere": {"type": "no such"}}, "$.type"),
        (
            {"properties": {"a": {"$ref": "#/elsewhere"}}, "elsewhere": {"not": {"$ref": "#/nowhere"}}},
            "can't be resolved",
        ),
        ({"properties": {"a": {"$ref": "http://[::1"}}}, "can't be resolved"),
    ],
)
def test_references_are_followed_before_a_run_is_taken(schema: dict[str, Any], said: str) -> None:
    """A reference at any depth must lead to a schema inside the document, and never back to itself."""
    assert said in (schema_flaw(schema) or "")


@each(
    "schema",
    [
        {"$ref": "#/$defs/list", "$defs": {"list": {"properties": {"next": {"$ref": "#/$defs/list"}}}}},
        {"$id": "http://a/b", "$defs": {"x": {"$id": "c", "$anchor": "y"}}, "properties": {"p": {"$ref": "c#y"}}},
        {"$dynamicAnchor": "node", "items": {"$dynamicRef": "#node"}},
        {"properties": {"a": {"$ref": "#/elsewhere"}}, "elsewhere": {"type": "string"}},
        {"properties": {"$ref": {"type": "string"}}},
        {"enum": [{"$ref": "#/nowhere"}]},
        {"anyOf": [{"type": "string"}, {"items": {"$ref": "#"}}]},
    ],
)
def test_references_that_come_to_an_end_are_taken(schema: dict[str, Any]) -> None:
    """Lists and trees are allowed, and so is data that only looks like a reference."""
    assert schema_flaw(schema) is None


def test_a_schema_that_breaks_the_library_is_a_flaw_of_the_data() -> None:
    """If the validator raises any error, that error is the reason why the data is rejected."""
    flaw = data_flaw({"x": 10**400}, {"properties": {"x": {"multipleOf": 0.5}}})
    assert "the output schema can't be applied: OverflowError" in (flaw or "")


@pytest.mark.parametrize(
    "check,said",
    [
        ([{"pattern": "[[a]"}], "null"),
        ([{"type": 7}], '"$.type: 7 is not valid under any of the given schemas"'),
        ([{"required": ["x"]}, {}], "\"$: 'x' is a required property\""),
    ],
)
def test_the_program_answers_with_one_line(check: list[Any], said: str) -> None:
    """It prints the flaw, writes no warning of the library, and exits with 0."""
    argv = (sys.executable, "-m", worker.__name__, "1000", str(2**40))
    ran = subprocess.run(argv, input=json.dumps(check), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (ran.stdout, ran.stderr, ran.returncode) == (f"{said}\n", "", 0)
