"""Reads the messages and items of a protocol from its JSON Schema, with the fields of each.

A variant is named `request thread/start`, as the contract calls its union, and its field `request thread/start: cwd`,
which is `required` or `optional`; the allowed values of a word follow.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from turngate.contract.launch import Listing

MOST = 4000
LONGEST = 160
_TAGS = ("method", "type")
_MOST_STEPS = 10


def protocol(listing: Listing, text: str) -> dict[str, str]:
    """Return variants and fields; none if the text is no such schema, or has too many of them."""
    try:
        root = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    found = dict[str, str]()
    for called, place in listing.unions.items():
        for variant in _list(_at(root, place).get("oneOf")):
            for name, fields in _messages(root, called, variant):
                found[name] = ""
                found |= {f"{name}: {key}"[:LONGEST]: value for key, value in _fields(root, fields)}
    return found if len(found) <= MOST else {}


def _messages(root: Any, called: str, variant: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield a variant, and the response that belongs to it, each with the object that has its fields."""
    members = _object(_object(variant).get("properties"))
    tag = next((tag for tag in _TAGS if tag in members), None)
    named = _list(_object(members.get(tag)).get("enum")) if tag else []
    if not named:
        return
    name = str(named[0])[:LONGEST]
    params = _object(members.get("params"))
    yield f"{called} {name}", params if "params" in members else {} if tag == "method" else _object(variant)
    place = str(params.get("$ref", ""))
    if place.endswith("Params") and (answer := _at(root, f"{place.removesuffix('Params')}Response")):
        yield f"response to {name}", answer


def _fields(root: Any, node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    whole = _resolved(root, node)
    required = _list(whole.get("required"))
    for key, value in _object(whole.get("properties")).items():
        words = set() if key in _TAGS else {*_words(root, _object(value))}
        allowed = f": {'|'.join(sorted(words))}" if words else ""
        # part of a list would show the rest as gone
        yield key, f"{'required' if key in required else 'optional'}{allowed if len(allowed) <= LONGEST else ''}"


def _words(root: Any, node: Mapping[str, Any], depth: int = 2) -> Iterator[str]:
    """Yield the words that a value may be, or that tag an object; a value that may be null has its type beside null."""
    whole = _resolved(root, node)
    tag = _object(_object(whole.get("properties")).get("type"))
    yield from (str(word) for word in (*_list(whole.get("enum")), *_list(tag.get("enum"))))
    for key in ("anyOf", "oneOf", "allOf") if depth else ():
        for kind in _list(whole.get(key)):
            yield from _words(root, _object(kind), depth - 1)


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
