"""What requests may say, by the schemas of `openapi.yaml`: bodies, parameters, the idempotency key."""

import re
from functools import cache
from typing import Any

from flask import request
from jsonschema import Draft202012Validator, ValidationError
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from turngate import strict_json
from turngate.contract.load import dotted
from turngate_reference.server.api_errors import ApiError
from turngate_reference.server.web import openapi

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
}
_PATTERNS = {r"\S": "must hold more than white space"}


def body(name: str) -> dict[str, Any]:
    """Return the request's body, valid by the schema `name`; Refusal if it is not."""
    if request.mimetype != "application/json":
        hint = "send the header Content-Type: application/json"
        raise ApiError("UNSUPPORTED_MEDIA_TYPE", f"the body is said to be {request.mimetype or 'nothing'!r}", hint)
    value = parse(request.get_data(cache=False))
    _refuse(_errors(_validator(name), value, "$"))
    found: dict[str, Any] = value
    return found


def query(path: str) -> dict[str, Any]:
    """Return the query parameters of a GET of the document; Refusal if one is unknown or wrong."""
    known = {p["name"]: p for p in openapi.operation(path, "get").parameters if p["in"] == "query"}
    errors = [(f"query.{name}", "is not known") for name in request.args if name not in known]
    found: dict[str, Any] = {}
    for name, parameter in known.items():
        texts = request.args.getlist(name)
        if len(texts) > 1:
            errors.append((f"query.{name}", "must stand once"))
        elif texts:
            found[name] = _read(texts[0])
            errors += _errors(_plain(parameter), found[name], f"query.{name}")
    _refuse(errors)
    return found


def header(path: str, method: str, name: str) -> Any:
    """Return a header that an operation of the document takes, None if it is absent; Refusal if it is wrong."""
    text = request.headers.get(name)
    if text is None:
        return None
    (parameter,) = (p for p in openapi.operation(path, method).parameters if p["name"] == name)
    value = _read(text) if openapi.resolved(parameter["schema"]).get("type") == "integer" else text
    _refuse(_errors(_plain(parameter), value, f"header.{name}"))
    return value


def parse(data: bytes) -> Any:
    """Read JSON strictly; Refusal if it is none, or if it could not be stored and sent on unaltered."""
    try:
        return strict_json.parse(data.decode())
    except (ValueError, RecursionError) as wrong:
        said = "it is nested too deep" if isinstance(wrong, RecursionError) else str(wrong)[:200]
        raise ApiError("BAD_JSON", f"the body is no JSON that can be used: {said}", "send JSON in UTF-8") from wrong


def _read(text: str) -> int | str:
    return int(text) if re.fullmatch(r"-?[0-9]{1,19}", text) else text


def _refuse(errors: list[tuple[str, str]]) -> None:
    if errors:
        place, message = errors[0]
        told = [{"path": path, "message": message} for path, message in errors[:MAX_ERRORS]]
        hint = "GET /openapi.json says what is taken"
        raise ApiError("INVALID_REQUEST", f"{place}: {message}", hint, {"errors": told})


def _errors(validator: Draft202012Validator, value: Any, root: str) -> list[tuple[str, str]]:
    found = sorted(validator.iter_errors(value), key=lambda e: list(map(str, e.absolute_path)))
    return [(root + dotted(tuple(each.absolute_path))[1:], _worded(each)) for each in found]


def _worded(error: ValidationError) -> str:
    """Return what is wrong without repeating a value that may be long."""
    template = _WORDS.get(str(error.validator))
    if template is None:
        return error.message[:300]
    value: Any = error.validator_value
    if error.validator == "pattern":
        template = _PATTERNS.get(value, template)
    return template.format(", ".join(map(str, value)) if isinstance(value, list) else value)


@cache
def _validator(name: str) -> Draft202012Validator:
    """Make the validator of a schema of the document; references lead into the document, nothing is ever fetched."""
    resource = DRAFT202012.create_resource(openapi.document())
    schema = {"$ref": f"{_URI}#/components/schemas/{name}"}
    return Draft202012Validator(schema, registry=Registry().with_resource(_URI, resource))


def _plain(parameter: dict[str, Any]) -> Draft202012Validator:
    """Make the validator of a parameter, whose schema is a simple one."""
    return Draft202012Validator(openapi.resolved(parameter["schema"]), registry=Registry())
