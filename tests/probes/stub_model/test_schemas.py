"""JSON that fits a schema, and the requests that ask for it."""

import json
from email.message import Message
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate_probes.stub_model import Exchange, Refuse, StubRule, Text
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
AS_JSON = {"responseMimeType": "application/json"}
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
    """Where the model must answer with JSON, the script's text is for another request."""
    reply, text = answered({"contents": [], "generationConfig": config}, StubRule(Text("free")))
    assert reply == "json"
    assert expected in text


def test_a_request_for_json_is_refused_as_any_other() -> None:
    """A backend that refuses everything refuses to say which model should answer, too."""
    assert answered({"contents": [], "generationConfig": AS_JSON}, StubRule(Refuse(503))) == ("refuse 503", "")


def test_a_request_for_json_uses_no_reply_up() -> None:
    """A reply for one request is for the first in which the model speaks freely."""
    replies = ReplyRules([StubRule(Text("once"), times=1)])
    answered({"contents": [], "generationConfig": AS_JSON}, replies)
    assert answered({"contents": []}, replies) == ("text", "once")


@pytest.mark.parametrize("config", [None, [], {}, {"responseMimeType": "text/plain"}, {"responseSchema": None}])
def test_any_other_request_is_answered_as_scripted(config: object) -> None:
    """A request without a schema, or with something else in its place, is answered by the script."""
    assert answered({"contents": [], "generationConfig": config}, StubRule(Text("free"))) == ("text", "free")


def answered(document: dict[str, Any], script: ReplyRules | StubRule) -> tuple[str, str]:
    """Return the journal's name for a reply to gemini, and its text."""
    path = "/v1beta/models/gemini-flash-lite:generateContent"
    request = Exchange(0, "POST", path, body=json.dumps(document).encode())
    replies = script if isinstance(script, ReplyRules) else ReplyRules([script])
    noted, answer = respond(request, Message(), replies)
    assert answer is not None
    body = answer.body
    assert isinstance(body, dict)
    if answer.status != 200:
        return noted.reply, ""
    return noted.reply, body["candidates"][0]["content"]["parts"][0]["text"]
