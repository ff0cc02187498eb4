"""Reads the messages, items and objects of a protocol from its JSON Schema or OpenAPI, with the fields of each.

A variant is named `request thread/start`, as the contract calls its union, and its field `request thread/start: cwd`,
which is `required` or `optional`; the allowed values of a word follow. A definition that is no union has fields alone,
such as `turn: status`.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

MOST = 4000
LONGEST = 160
_LONGEST_WORDS = 600
_TAGS = ("method", "type", "subtype", "hook_event_name")
_UNIONS = ("anyOf", "oneOf")
_MOST_STEPS = 10
_CALLS = "paths"  # where an OpenAPI has its calls
_METHODS = {"get", "put", "post", "delete", "patch"}


def protocol(unions: Mapping[str, str], text: str) -> dict[str, str]:
    """Return variants and fields; none if the text is no such schema, or has too many of them."""
    try:
        root = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    found = dict[str, str]()
    for called, place in unions.items():
        for name, fields in _calls(root, called) if place == _CALLS else _variants(root, called, _at(root, place)):
            found |= {name: ""} if name != called else {}
            found |= {f"{name}: {key}"[:LONGEST]: value for key, value in _fields(root, fields)}
    return found if len(found) <= MOST else {}


def _calls(root: Any, called: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the calls of an OpenAPI, each with its parameters and the fields of its body, and their responses."""
    for path, methods in _at(root, _CALLS).items():
        for method in sorted(_METHODS & _object(methods).keys()):
            call = _object(methods[method])
            name = f"{method.upper()} {path}"[:LONGEST]
            body = _resolved(root, _json_of(call.get("requestBody")))
            members, required = {**_object(body.get("properties"))}, [*_list(body.get("required"))]
            for parameter in map(_object, _list(call.get("parameters"))):
                members[str(parameter.get("name"))] = _object(parameter.get("schema"))
                required += [str(parameter.get("name"))] if parameter.get("required") is True else []
            yield f"{called} {name}", {"properties": members, "required": required}
            yield f"response to {name}", _json_of(_object(call.get("responses")).get("200"))


def _json_of(message: Any) -> Mapping[str, Any]:
    """Return the schema of the JSON in a body or a response."""
    return _object(_object(_object(_object(message).get("content")).get("application/json")).get("schema"))


def _variants(root: Any, called: str, union: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the variants of a definition, and what it has itself, which they share."""
    if "properties" in union:
        yield called, {key: union[key] for key in ("properties", "required") if key in union}
    for variant in _list(union.get("oneOf") or union.get("anyOf")):
        yield from _messages(root, called, _resolved(root, _object(variant)), _MOST_STEPS)


def _messages(
    root: Any, called: str, variant: Mapping[str, Any], depth: int
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield a variant, and the response that belongs to it, each with the object that has its fields."""
    members = _object(variant.get("properties"))
    tags = [tag for tag in _TAGS if tag in members]
    named = [str(words[0]) for tag in tags if (words := _allowed(_object(members[tag])))]
    if not members and depth:
        for key in _UNIONS:
            for inner in _list(variant.get(key)):
                yield from _messages(root, called, _resolved(root, _object(inner)), depth - 1)
    if not named:
        # a word, or an object that its only member names
        alone = [*members] if not tags and len(members) == 1 else []
        yield from ((f"{called} {word}"[:LONGEST], {}) for word in (*_allowed(variant), *alone))
        return
    name = "/".join(named)[:LONGEST]
    params = _object(members.get("params"))
    # some events have their fields in a member
    inner = next((_object(members[key]) for key in ("params", "properties") if key in members), None)
    yield f"{called} {name}", inner if inner is not None else {} if "method" in tags else variant
    place = str(params.get("$ref", ""))
    if place.endswith("Params") and (answer := _at(root, f"{place.removesuffix('Params')}Response")):
        yield f"response to {name}", answer


def _fields(root: Any, node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    whole = _resolved(root, node)
    # of fields of which one has to be there, none is required
    either = [_resolved(root, _object(each)) for key in _UNIONS for each in _list(whole.get(key))]
    members = {key: value for each in either for key, value in _object(each.get("properties")).items()}
    required = _list(whole.get("required"))
    for key, value in {**members, **_object(whole.get("properties"))}.items():
        words = {*_words(root, _object(value))}
        words = set() if key in _TAGS and len(words) == 1 else words
        allowed = f": {'|'.join(sorted(words))}" if words else ""
        # part of a list would show the rest as gone
        yield key, f"{'required' if key in required else 'optional'}{allowed if len(allowed) <= _LONGEST_WORDS else ''}"


def _words(root: Any, node: Mapping[str, Any], depth: int = 2) -> Iterator[str]:
    """Yield the words that a value may be, or that tag an object; a value that may be null has its type beside null."""
    whole = _resolved(root, node)
    tag = _object(_object(whole.get("properties")).get("type"))
    yield from map(str, (*_allowed(whole), *_allowed(tag)))
    for key in (*_UNIONS, "allOf") if depth else ():
        for kind in _list(whole.get(key)):
            yield from _words(root, _object(kind), depth - 1)


def _allowed(node: Mapping[str, Any]) -> list[Any]:
    return [node["const"]] if "const" in node else _list(node.get("enum"))


def _resolved(root: Any, node: Mapping[str, Any]) -> Mapping[str, Any]:
    for _ in range(_MOST_STEPS):
        if "$ref" not in node:
            return node
        node = _at(root, str(node["$ref"]))
    return {}


def _at(root: Any, place: str) -> Mapping[str, Any]:
    for key in place.removeprefix("#/").split("/"):
        root = _object(root).get(key)
    return _object(root)


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
