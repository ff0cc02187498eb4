"""Reads `openapi.yaml`, the source of what the HTTP side accepts and answers."""

import json
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from turngate.contract import load

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")


class Operation(NamedTuple):
    """One method of one path of the document; `parameters` and `responses` have their references resolved."""

    path: str
    method: str
    parameters: list[dict[str, Any]]
    responses: dict[str, dict[str, Any]]
    definition: dict[str, Any]


@cache
def document() -> dict[str, Any]:
    """Return the document; nobody may change it."""
    text = files("turngate").joinpath("openapi.yaml").read_text("utf-8")
    found: dict[str, Any] = load.parse(text, "openapi.yaml", ours=True).data
    return found


@cache
def as_json() -> bytes:
    """Return the document as it is served."""
    return json.dumps(document(), ensure_ascii=False).encode()


@cache
def problems() -> dict[str, dict[str, Any]]:
    """Return the table of problems: code to status, title and when."""
    found: dict[str, dict[str, Any]] = document()["x-turngate"]["problems"]
    return found


def operations() -> Iterator[Operation]:
    """Return every operation of the document."""
    for path, item in document()["paths"].items():
        for method in item:
            if method in METHODS:
                yield operation(path, method)


@cache
def operation(path: str, method: str) -> Operation:
    """Return one operation; `path` is written as in the document, `method` in lower case."""
    item = document()["paths"][path]
    definition = item[method]
    parameters = [resolved(each) for each in (*item.get("parameters", ()), *definition.get("parameters", ()))]
    responses = {status: resolved(each) for status, each in definition["responses"].items()}
    return Operation(path, method, parameters, responses, definition)


def resolved(value: dict[str, Any]) -> dict[str, Any]:
    """Follow a reference inside the document; a value without one is given back."""
    if "$ref" not in value:
        return value
    found: Any = document()
    for part in value["$ref"].removeprefix("#/").split("/"):
        found = found[part]
    return resolved(found)
