"""What is wrong with an output schema, and how data violates it; a program that says so, within limits.

References inside a schema must each lead to a schema in it, and none back to itself. Nothing is ever fetched.

`python -m turngate_reference.server.output_schema.worker CPU_SECONDS BYTES` reads a line of JSON, `[schema]` or
`[schema, data]`, and answers with a line: the flaw, or null. A check that exceeds its limits ends the process, by
SIGPROF or with the exit code `OUT_OF_MEMORY`.
"""

import json
import os
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from turngate_reference.server.output_schema import OUT_OF_MEMORY

_REFERENCES = ("$ref", "$dynamicRef")
# keywords whose subschemas apply to the same value: a reference cycle through them would never end
_IN_PLACE = ("not", "if", "then", "else")
_IN_PLACE_LISTS = ("allOf", "anyOf", "oneOf")
_ENDLESS = "it refers to itself endlessly"
# a schema and what resolves its references, whose class has no public name
_Place = tuple[Any, Any]


def schema_flaw(schema: dict[str, Any]) -> str | None:
    """Return what is wrong with an output schema, in at most 1,100 characters, or None. MemoryError is raised."""
    try:
        Draft202012Validator.check_schema(schema)
        if flaw := _reference_flaw(schema):
            return flaw
        _validator(schema).is_valid({})
    except SchemaError as wrong:
        return _told(wrong)
    except Unresolvable as lost:
        return f"a reference is external or can't be resolved: {str(lost)[:200]}"
    except RecursionError:
        return _ENDLESS
    except MemoryError:
        raise
    except Exception as odd:  # noqa: BLE001 - a caller's schema reaches corners of the library that raise anything
        return f"it can't be used: {type(odd).__name__}: {str(odd)[:200]}"
    return None


def data_flaw(final_data: Any, schema: dict[str, Any]) -> str | None:
    """Return how data violates an output schema, in at most 1,100 characters, or None. MemoryError is raised."""
    try:
        wrong = best_match(_validator(schema).iter_errors(final_data))
    except MemoryError:
        raise
    except Exception as odd:  # noqa: BLE001 - a caller's schema reaches corners of the library that raise anything
        return f"the output schema can't be applied: {type(odd).__name__}: {str(odd)[:200]}"
    return _told(wrong) if wrong else None


def _told(wrong: ValidationError | SchemaError) -> str:
    return f"{wrong.json_path[:500]}: {wrong.message[:500]}"


def _validator(schema: dict[str, Any]) -> Draft202012Validator:
    # an empty registry: nothing is fetched from anywhere
    return Draft202012Validator(schema, registry=Registry())


def _reference_flaw(schema: dict[str, Any]) -> str | None:
    """Return what is wrong with a valid schema's references; Unresolvable or SchemaError if one has no valid target."""
    root = DRAFT202012.create_resource(schema)
    uri = root.id() or ""
    registry: Registry[Any] = Registry().with_resource(uri, root).crawl()
    parts: list[_Place] = [(schema, registry.resolver(uri))]
    targets: list[_Place] = []
    edges: dict[int, set[int]] = {}
    while parts or targets:
        if not parts:
            # only values outside of all keywords are new here; they were not checked as schemas yet
            parts.append(targets.pop())
            if id(parts[0][0]) not in edges:
                Draft202012Validator.check_schema(parts[0][0])
        part, resolver = parts.pop()
        if not isinstance(part, dict) or id(part) in edges:
            continue
        referred = [resolver.lookup(part[name]) for name in _REFERENCES if name in part]
        edges[id(part)] = {id(other) for other in (*_in_place(part), *(target.contents for target in referred))}
        targets += ((target.contents, target.resolver) for target in referred)
        parts += (
            (inner, resolver.in_subresource(DRAFT202012.create_resource(inner)))
            for inner in DRAFT202012.subresources_of(part)
        )
    try:
        TopologicalSorter(edges).prepare()
    except CycleError:
        return _ENDLESS
    return None


def _in_place(schema: dict[str, Any]) -> Iterator[Any]:
    yield from (schema[name] for name in _IN_PLACE if name in schema)
    for name in _IN_PLACE_LISTS:
        yield from schema.get(name, ())
    yield from schema.get("dependentSchemas", {}).values()


def main(cpu_seconds: float, memory: int) -> None:
    """Answer the check on standard input."""
    with suppress(ValueError, OSError):  # not every system has this limit
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    schema_flaw({"pattern": "a"})  # what the library makes once doesn't count
    line = sys.stdin.buffer.readline()
    # SIGPROF, unlike any limit inside the interpreter, also ends a regular expression in progress
    signal.setitimer(signal.ITIMER_PROF, cpu_seconds)
    schema, *data = json.loads(line)
    flaw = data_flaw(data[0], schema) if data else schema_flaw(schema)
    sys.stdout.write(json.dumps(flaw) + "\n")


if __name__ == "__main__":
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stderr.fileno())  # nobody reads it from here on, and warnings could fill it
    try:
        main(float(sys.argv[1]), int(sys.argv[2]))
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
