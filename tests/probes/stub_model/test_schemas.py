"""JSON that fits a schema, and the requests that ask for it."""

import json
from email.message import Message
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate_probes.stub_model import Exchange, Refuse, StubRule
from turngate_probes.stub_model.answers import respond
from turngate_probes.stub_model.protocol import ReplyRules
from turngate_probes.stub_model.schemas import least_instance

# the request of a router that asks which model should answer
ROUTER = {
    "type": "OBJECT",
    "properties": {
        "reasoning": {"type": "STRING"},
        "model_choice": {"type": "STRING", "enum": ["flash", "pro"]},
        "note": {"type": "STRING"},
    },
    "required": ["reasoning", "model_choice"],
}
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
_WORDS = (
    "type",
    "enum",
    "anyOf",
    "items",
    "minItems",
    "minimum",
    "properties",
    "required",
    "OBJECT",
    "array",
    "number",
)
_SCHEMAS = st.dictionaries(st.sampled_from(_WORDS), _JSON | st.sampled_from(_WORDS), max_size=5)


@pytest.mark.parametrize(
    "schema, expected",
    [
        (ROUTER, {"reasoning": "", "model_choice": "flash"}),
        ({"type": "integer", "minimum": 1, "maximum": 100}, 1),
        ({"type": "INTEGER", "minimum": "7"}, 7),
        ({"type": "integer"}, 1),
        ({"type": "number"}, 0),
        ({"type": "boolean"}, False),
        ({"type": ["null", "string"]}, None),
        ({"const": "x"}, "x"),
        ({"anyOf": [{"type": "boolean"}, {"type": "string"}]}, False),
        ({"type": "array", "items": {"type": "string"}}, []),
        ({"type": "array", "items": {"type": "boolean"}, "minItems": 1}, [False]),
        ({"properties": {"a": {"type": "object", "required": ["b"]}}, "required": ["a"]}, {"a": {"b": ""}}),
        ({}, ""),
    ],
)
def test_the_least_that_fits(schema: dict[str, Any], expected: object) -> None:
    """Only what is required is there, and where there is a choice, its first alternative."""
    assert least_instance(schema) == expected


@given(_SCHEMAS)
def test_no_schema_is_too_odd(schema: dict[str, Any]) -> None:
    """Whatever a client sends as a schema, JSON comes back."""
    json.dumps(least_instance(schema))


def test_the_depth_is_bounded() -> None:
    """A schema that is deeper than any real one is answered too."""
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(5000):
        deep = {"anyOf": [deep]}
    assert least_instance(deep) == ""


@pytest.mark.parametrize(
    "config, expected",
    [
        ({"responseMimeType": "application/json", "responseJsonSchema": ROUTER}, '"flash"'),
        ({"responseSchema": ROUTER}, '"flash"'),
        ({"responseMimeType": "application/json"}, "{}"),
    ],
)
def test_a_request_for_json_is_answered_with_json(config: dict[str, Any], expected: str) -> None:
    """The script is for what the model says freely."""
    status, text = answered({"contents": [], "generationConfig": config})
    assert status == 200
    assert expected in text


@pytest.mark.parametrize("config", [None, [], {}, {"responseMimeType": "text/plain"}, {"responseSchema": None}])
def test_any_other_request_is_answered_as_scripted(config: object) -> None:
    """A request without a schema, or with something else in its place, is answered by the script."""
    assert answered({"contents": [], "generationConfig": config}) == (500, "")


def answered(document: dict[str, Any]) -> tuple[int, str]:
    """Return the status and the text of an answer to gemini, where all is refused by the script."""
    path = "/v1beta/models/gemini-flash-lite:generateContent"
    request = Exchange(0, "POST", path, body=json.dumps(document).encode())
    noted, answer = respond(request, Message(), ReplyRules([StubRule(Refuse(500))]))
    assert answer is not None
    assert noted.is_for_json is (answer.status == 200)
    body = answer.body
    assert isinstance(body, dict)
    if answer.status != 200:
        return answer.status, ""
    return 200, body["candidates"][0]["content"]["parts"][0]["text"]
