"""JSON that fits the schema which a request gives for its answer."""

from collections.abc import Mapping
from typing import Any

_SIMPLE: Mapping[str, Any] = {"string": "", "boolean": False, "null": None}
_DEPTH = 50  # of a schema; what is below is left out


def least_instance(schema: object, depth: int = _DEPTH) -> Any:
    """Return the least that fits a schema: the first of alternatives, and what is required of an object or array.

    Types may be in capitals, as the Gemini API has them. References and patterns are not followed.
    """
    if not isinstance(schema, dict) or not depth:
        return ""
    if "const" in schema:
        return schema["const"]
    for key in ("enum", "anyOf", "oneOf"):
        if isinstance(given := schema.get(key), list) and given:
            return given[0] if key == "enum" else least_instance(given[0], depth - 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = str(kind[0] if isinstance(kind, list) and kind else kind).lower()
    match kind:
        case "object":
            of = schema.get("properties")
            members = of if isinstance(of, dict) else {}
            required = schema.get("required")
            names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
            return {name: least_instance(members.get(name), depth - 1) for name in names}
        case "array":
            return [least_instance(schema.get("items"), depth - 1)] if _least(schema, "minItems") else []
        case "number":
            return _least(schema, "minimum")
        case "integer":  # more often a count or a place than an amount
            return _least(schema, "minimum", 1)
    return _SIMPLE.get(kind, "")


def _least(schema: Mapping[str, Any], key: str, default: int = 0) -> int | float:
    given = schema.get(key)
    if isinstance(given, str) and given.isascii() and given.isdecimal():
        return int(given[:9])  # the Gemini API writes long integers as text
    return given if isinstance(given, int | float) else default
