"""Messages and items of a protocol, from its JSON Schema."""

import json
from typing import Any

from tests.tables import each
from turngate_probes.journal.protocol import MOST, protocol

UNIONS = {"request": "definitions/Request", "item": "definitions/v2/Item"}


def variant(tag: str, name: str, **more: Any) -> dict[str, Any]:
    """Return a variant of a union."""
    return {"properties": {tag: {"enum": [name]}, **more}, "required": [tag]}


SCHEMA: dict[str, Any] = {
    "definitions": {
        "Request": {"oneOf": [variant("method", "a/start", params={"$ref": "#/definitions/v2/StartParams"}), 1]},
        "v2": {
            "StartParams": {
                "properties": {
                    "cwd": {"type": "string"},
                    "policy": {"anyOf": [{"$ref": "#/definitions/Policy"}, {"type": "null"}]},
                },
                "required": ["cwd"],
            },
            "StartResponse": {"properties": {"id": {"type": "string"}}, "required": ["id"]},
            "Item": {"oneOf": [variant("type", "message", text={"type": "string"})]},
        },
        "Policy": {"oneOf": [{"enum": ["never", "ask"]}, variant("type", "granular")]},
    }
}


def test_messages_are_read_with_their_fields_and_answers() -> None:
    """A field is required or optional, with the words that it takes; the answer's fields belong to the request."""
    assert protocol(UNIONS, json.dumps(SCHEMA)) == {
        "request a/start": "",
        "request a/start: cwd": "required",
        "request a/start: policy": "optional: ask|granular|never",
        "response to a/start": "",
        "response to a/start: id": "required",
        "item message": "",
        "item message: type": "required",
        "item message: text": "optional",
    }


def test_an_openapi_is_read_with_its_calls_and_events() -> None:
    """Parameters and members of a body are fields of a call; an event has its own in a member."""
    body = {"content": {"application/json": {"schema": {"properties": {"title": {"type": "string"}}}}}}
    parameter = {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}
    call = {"parameters": [parameter, {"name": "size"}], "requestBody": body, "responses": {"200": body}}
    event = {"properties": {"type": {"const": "idle"}, "properties": {"properties": {"id": {}}, "required": ["id"]}}}
    schemas = {"Event": {"anyOf": [{"$ref": "#/components/schemas/Idle"}]}, "Idle": event}
    unions = {"request": "paths", "event": "components/schemas/Event"}
    text = json.dumps({"paths": {"/a/{id}": {"post": call, "x-note": 1}}, "components": {"schemas": schemas}})
    assert protocol(unions, text) == {
        "request POST /a/{id}": "",
        "request POST /a/{id}: title": "optional",
        "request POST /a/{id}: id": "required",
        "request POST /a/{id}: size": "optional",
        "response to POST /a/{id}": "",
        "response to POST /a/{id}: title": "optional",
        "event idle": "",
        "event idle: id": "required",
    }


def test_objects_and_words_are_read_too() -> None:
    """An object has fields alone; words are variants; of fields of which one must be there, none is required."""
    url, file = ({"properties": {key: {}}, "required": [key]} for key in ("url", "file"))
    image = variant("type", "image") | {"anyOf": [url, file]}
    failed = {"properties": {"httpFailed": {"type": "object"}}, "required": ["httpFailed"]}
    root = {
        "Turn": {"properties": {"id": {}, "status": {"enum": ["done"]}}, "required": ["id"]},
        "Error": {"oneOf": [{"enum": ["full", "denied"]}, failed]},
        "Input": {"oneOf": [image], "properties": {"at": {}}},
    }
    unions = {"turn": "Turn", "error": "Error", "input": "Input"}
    assert protocol(unions, json.dumps(root)) == {
        "turn: id": "required",
        "turn: status": "optional: done",
        "error full": "",
        "error denied": "",
        "error httpFailed": "",
        "input: at": "optional",
        "input image": "",
        "input image: type": "required",
        "input image: url": "optional",
        "input image: file": "optional",
    }


LOOP = {
    "definitions": {
        "Request": {"oneOf": [variant("method", "a", params={"$ref": "#/definitions/B"})]},
        "B": {"$ref": "#/definitions/B"},
    }
}
MANY = {"definitions": {"Request": {"oneOf": [variant("method", f"m{number}") for number in range(MOST + 1)]}}}


@each(
    "text, found",
    [
        ("", {}),
        ("[]", {}),
        ("[" * 100_000, {}),
        ('{"definitions": {"Request": {"oneOf": [{"properties": {"method": {"enum": []}}}, null]}}}', {}),
        (json.dumps(LOOP), {"request a": ""}),
        (json.dumps(MANY), {}),
    ],
)
def test_what_is_no_such_schema_lists_nothing(text: str, found: dict[str, str]) -> None:
    """So it is for a schema whose definitions lead to themselves, or with too many messages."""
    assert protocol(UNIONS, text) == found
