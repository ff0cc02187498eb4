"""Reads `openapi.yaml`, which defines what the HTTP interface accepts and answers."""

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

from msgspec import Struct

from turngate.contract import load


class Operation(Struct, frozen=True):
    """One method of one path of the document; `parameters` and `responses` have their references resolved."""

    path: str
    method: str
    parameters: list[dict[str, Any]]
    responses: dict[str, dict[str, Any]]
    definition: dict[str, Any]

    @property
    def name(self) -> str:
        """Its id in Python style: `createRun` is `create_run`."""
        return re.sub("([A-Z])", r"_\1", self.definition["operationId"]).lower()


@cache
def document() -> dict[str, Any]:
    """Return the document, which must not be changed."""
    text = files("turngate").joinpath("openapi.yaml").read_text("utf-8")
    data: dict[str, Any] = load.parse(text, "openapi.yaml", ours=True).data
    return data


@cache
def as_json() -> bytes:
    """Return the document as it is served."""
    return json.dumps(document(), ensure_ascii=False).encode()


def problems() -> dict[str, dict[str, Any]]:
    """Return the table of problems: code to status, title and when."""
    table: dict[str, dict[str, Any]] = document()["x-turngate"]["problems"]
    return table


@cache
def operations() -> tuple[Operation, ...]:
    """Return every operation of the document."""
    return tuple(
        Operation(
            path,
            method,
            [resolved(parameter) for parameter in (*item.get("parameters", ()), *definition.get("parameters", ()))],
            {status: resolved(response) for status, response in definition["responses"].items()},
            definition,
        )
        for path, item in document()["paths"].items()
        for method, definition in item.items()
        if method in {"get", "post"}
    )


def resolved(value: dict[str, Any]) -> dict[str, Any]:
    """Follow a reference inside the document; a value without one is returned as it is."""
    if "$ref" not in value:
        return value
    target: Any = document()
    for part in value["$ref"].removeprefix("#/").split("/"):
        target = target[part]
    return resolved(target)
