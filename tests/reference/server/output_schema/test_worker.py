import subprocess
import sys
from typing import Any

import pytest

from tests.patience import PATIENCE
from turngate_reference.server.output_schema import worker
from turngate_reference.server.output_schema.worker import data_flaw, schema_flaw


@pytest.mark.parametrize(
    "schema,said",
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


@pytest.mark.parametrize(
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


def test_the_program_answers_each_line_until_its_input_ends() -> None:
    """It keeps no warning and no flaw of one line for the next, and exits with 0."""
    lines = b'[{"pattern": "[[a]"}]\n[{"type": 7}]\n[{"required": ["x"]}, {}]\n'
    argv = (sys.executable, "-m", worker.__name__, "1000", str(2**40))
    ran = subprocess.run(argv, input=lines, capture_output=True, timeout=PATIENCE, check=False)
    good, schema, data = ran.stdout.splitlines()
    assert (ran.returncode, good, ran.stderr) == (0, b"null", b"")
    assert b"$.type" in schema
    assert b"required property" in data
