"""Reads `openapi.yaml`, and validates requests by it: bodies, parameters, the idempotency key."""

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from flask import request
from jsonschema import Draft202012Validator, ValidationError
from msgspec import Struct
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from turngate import strict_json
from turngate.contract import load
from turngate.contract.versions import dotted
from turngate.errors import did_you_mean
from turngate_reference.server.requests import ApiError

MAX_BODY = 4 * 2**20
MAX_ERRORS = 20
_URI = "urn:turngate:openapi"
_WORDS = {
    "type": "must be of type {}",
    "enum": "must be one of {}",
    "minLength": "must have {} or more characters",
    "maxLength": "must have {} or fewer characters",
    "pattern": "must match {}",
    "minimum": "must be {} or more",
    "maximum": "must be {} or less",
    "maxItems": "must have {} or fewer items",
    "dependentRequired": "set execution_mode to interactive, since interactive_profile is for a run that asks",
}
_PATTERNS = {r"\S": "must not be only white space"}
# fields of earlier versions, and what to do instead
_REMOVED = {"warm_wait_sec": 'remove it; a run with "interactive_profile": "sticky_process" keeps its process'}


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


def run_errors() -> dict[str, str]:
    """Return when a run fails with each code."""
    table: dict[str, str] = document()["x-turngate"]["run_errors"]
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


def arguments(operation: Operation) -> dict[str, Any]:
    """Return the request's parameters, and its body as `body`; ApiError if they are invalid."""
    given = _parameters(operation)
    if "requestBody" in operation.definition:
        given["body"] = _body(operation.definition["requestBody"]["content"]["application/json"]["schema"]["$ref"])
    return given


def _parameters(operation: Operation) -> dict[str, Any]:
    """Return the parameters by their Python names; if a header and a parameter have the same name, the header wins."""
    known = {parameter["name"] for parameter in operation.parameters if parameter["in"] == "query"}
    errors = [(f"query.{name}", "is unknown") for name in request.args if known and name not in known]
    given: dict[str, Any] = {}
    for place, sent in (("query", request.args), ("header", request.headers)):
        for parameter in (parameter for parameter in operation.parameters if parameter["in"] == place):
            name, schema = parameter["name"], resolved(parameter["schema"])
            texts = sent.getlist(name) or ([schema["default"]] if "default" in schema else [])
            if len(texts) > 1:
                errors.append((f"{place}.{name}", "must occur only once"))
            elif texts:
                value = number(texts[0]) if schema.get("type") == "integer" else texts[0]
                errors += _errors(Draft202012Validator(schema, registry=Registry()), value, f"{place}.{name}")
                given[name.lower().replace("-", "_")] = value
            elif parameter.get("required"):
                errors.append((f"{place}.{name}", "is missing"))
    _refuse(errors)
    return given


def _body(reference: str) -> dict[str, Any]:
    if request.mimetype != "application/json":
        hint = "add the header Content-Type: application/json"
        raise ApiError(
            "UNSUPPORTED_MEDIA_TYPE", f"Content-Type is {request.mimetype or 'missing'!r}, not 'application/json'", hint
        )
    try:
        value: dict[str, Any] = strict_json.parse(request.get_data(cache=False).decode())
    except (ValueError, RecursionError) as wrong:
        why = "it is nested too deeply" if isinstance(wrong, RecursionError) else str(wrong)[:200]
        raise ApiError("BAD_JSON", f"the body isn't valid JSON: {why}", "send UTF-8 JSON") from wrong
    check(reference, value)
    return value


def number(text: Any) -> Any:
    """Return a text as the whole number that it is, if that has at most 19 digits; any other value as it is."""
    return int(text) if re.fullmatch("-?[0-9]{1,19}", str(text)) else text


def event_id(place: Literal["query", "header"], name: str) -> int | None:
    """Return the event id that a parameter or a header of this request holds, or None; ApiError if it is invalid."""
    sent = request.args if place == "query" else request.headers
    if name not in sent:
        return None
    value: int = number(sent[name])
    _refuse(_errors(_validator("#/components/schemas/EventId"), value, f"{place}.{name}"))
    return value


def check(reference: str, value: Any) -> None:
    """Check a body against a schema of the document, by its reference; ApiError if it is invalid."""
    removed = [hint for name, hint in _REMOVED.items() if isinstance(value, dict) and name in value]
    _refuse(_errors(_validator(reference), value, "$"), *removed)


def _refuse(errors: list[tuple[str, str]], hint: str = "see the schemas in GET /openapi.json") -> None:
    if errors:
        place, message = errors[0]
        reported = [{"path": path, "message": message} for path, message in errors[:MAX_ERRORS]]
        raise ApiError("INVALID_REQUEST", f"{place}: {message}", hint, {"errors": reported})


def _errors(validator: Draft202012Validator, value: Any, root: str) -> list[tuple[str, str]]:
    errors = sorted(validator.iter_errors(value), key=lambda error: list(map(str, error.absolute_path)))
    return [(root + dotted(tuple(error.absolute_path))[1:], _worded(error)) for error in errors]


def _worded(error: ValidationError) -> str:
    """Return what is wrong, without repeating a value that may be long."""
    template = _WORDS.get(str(error.validator))
    schema: Any = error.schema
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        known = list(schema["properties"])
        unknown = next(name for name in error.instance if name not in known)
        near = [name for name in known if unknown.lower() in name.split("_")]
        meant = f"did you mean {near[0]}?" if near else did_you_mean(unknown, known, f"known: {', '.join(known)}")
        return f"there is no member {unknown[:100]!r} ({meant})"
    if template is None:
        return error.message[:300]
    value: Any = error.validator_value
    if error.validator == "pattern":
        template = _PATTERNS.get(value, template)
    return template.format(", ".join(map(str, value)) if isinstance(value, list) else value)


@cache
def _validator(reference: str) -> Draft202012Validator:
    """Return the validator of a schema of the document; references stay inside the document, and nothing is fetched."""
    resource = DRAFT202012.create_resource(document())
    return Draft202012Validator({"$ref": _URI + reference}, registry=Registry().with_resource(_URI, resource))
