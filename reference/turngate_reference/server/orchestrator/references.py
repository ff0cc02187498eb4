"""The references inside a JSON Schema of draft 2020-12: each must lead to a schema in it, and none back to itself."""

from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

_REFERENCES = ("$ref", "$dynamicRef")
# what is applied to the very value that the schema is applied to: a way back through these never ends
_IN_PLACE = ("not", "if", "then", "else")
_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
# a schema and what resolves its references, whose class has no public name
_Place = tuple[Any, Any]


def flaw(schema: dict[str, Any]) -> str | None:
    """Return what is wrong with the references of a valid schema; None: nothing. Nothing is fetched from anywhere.

    SchemaError if one leads to what is no valid schema itself.
    """
    root = DRAFT202012.create_resource(schema)
    uri = root.id() or ""
    registry: Registry[Any] = Registry().with_resource(uri, root).crawl()
    parts: list[_Place] = [(schema, registry.resolver(uri))]
    targets: list[_Place] = []
    edges: dict[int, set[int]] = {}
    while parts or targets:
        if not parts:
            # only what lies outside of every keyword is new by now, and has not been looked at as a schema
            parts.append(targets.pop())
            if id(parts[0][0]) not in edges:
                Draft202012Validator.check_schema(parts[0][0])
        each, resolver = parts.pop()
        if not isinstance(each, dict) or id(each) in edges:
            continue
        try:
            led = [resolver.lookup(each[name]) for name in _REFERENCES if name in each]
        except Unresolvable as lost:
            return f"a reference that leads outside, or nowhere: {str(lost)[:200]}"
        edges[id(each)] = {id(part) for part in (*_in_place(each), *(found.contents for found in led))}
        targets += ((found.contents, found.resolver) for found in led)
        parts += _parts(each, resolver)
    return _circle(edges)


def _parts(schema: dict[str, Any], resolver: Any) -> Iterator[_Place]:
    for part in DRAFT202012.subresources_of(schema):
        yield part, resolver.in_subresource(DRAFT202012.create_resource(part))


def _in_place(schema: dict[str, Any]) -> Iterator[Any]:
    yield from (schema[name] for name in _IN_PLACE if name in schema)
    for name in _IN_PLACE_LISTS:
        yield from schema.get(name, ())
    yield from schema.get("dependentSchemas", {}).values()


def _circle(edges: Mapping[int, set[int]]) -> str | None:
    try:
        TopologicalSorter(edges).prepare()
    except CycleError:
        return "it refers to itself without end"
    return None
