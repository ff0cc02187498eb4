"""Explains JSON Schema errors in plain words: what is wrong, where, and how to fix it."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from turngate.errors import ContractError, did_you_mean

_TYPES = {"object": "a mapping", "array": "a list", "string": "text", "integer": "a whole number", "null": "null"}


def mistakes(error: Any, tell: Callable[..., ContractError]) -> Iterator[ContractError]:
    """Explain an error of the jsonschema library; several unknown keys in one object give several mistakes.

    `tell` makes an error from path, message and hint; `of_key` says that the key is wrong, not the value at the path.
    """
    path, value, rule = tuple(error.absolute_path), error.validator_value, error.validator
    meaning = error.schema.get("description", "") if isinstance(error.schema, Mapping) else ""
    if rule == "additionalProperties" and value is False:
        for key in error.instance:
            known = error.schema.get("properties", {})
            if key not in known:
                hint = did_you_mean(key, known, f"known keys: {', '.join(sorted(known))}")
                yield tell((*path, key), f"unknown key {key!r}", hint, of_key=True)
    elif rule == "required":
        # the library yields one error per missing key, and names the key only in its message
        key = next(key for key in value if repr(key) == error.message.partition(" is a required")[0])
        meaning = error.schema.get("properties", {}).get(key, {}).get("description", "")
        yield tell(path, error.message, meaning or f"add `{key}: ...`")
    elif rule == "not":
        yield tell(path, f"key {path[-1]!r} conflicts with the other keys", "remove it", of_key=True)
    elif rule == "type":
        types = [value] if isinstance(value, str) else value
        yield tell(path, error.message, meaning or "write " + " or ".join(_TYPES.get(t, t) for t in types))
    elif rule == "format":
        yield tell(path, f"{error.message}: {_broken(error.instance)}", "write a Python regular expression")
    elif rule in {"enum", "const"}:
        allowed = [str(item) for item in value] if rule == "enum" else [str(value).lower()]
        hint = did_you_mean(str(error.instance), allowed, f"write one of: {', '.join(allowed)}")
        yield tell(path, error.message, hint)
    else:
        yield tell(path, error.message, meaning or f"the schema requires {rule}: {str(value)[:200]}")


def _broken(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as broken:
        return str(broken)
    return "not read"
