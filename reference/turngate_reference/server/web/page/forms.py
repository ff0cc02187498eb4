"""Converts the forms of the page into API requests."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from turngate import strict_json
from turngate_reference.server.api_errors import ApiError
from turngate_reference.server.store.rows import StoredQuestion
from turngate_reference.server.web import validation

_TEXTS = ("engine", "prompt", "execution_mode", "model", "workspace", "interactive_profile", "skill")
_SECONDS = frozenset({"session_timeout_sec", "warm_wait_sec"})


def run_request(form: Mapping[str, str]) -> dict[str, Any]:
    """Return the request that creates a run, without the fields that were left empty; ApiError if it is invalid."""
    filled = {name: text for name, text in _texts(form) if text.strip()}
    request: dict[str, Any] = {name: filled[name] for name in _TEXTS if name in filled}
    if "engine_options" in filled:
        request["engine_options"] = [line for line in filled["engine_options"].split("\n") if line]
    for name in _SECONDS & filled.keys():
        request[name] = validation.number(filled[name].strip())
    if "output_schema" in filled:
        request["output_schema"] = _schema(filled["output_schema"])
    validation.check("#/components/schemas/CreateRun", request)
    return request


def reply_request(form: Mapping[str, str], question: StoredQuestion | None) -> dict[str, Any]:
    """Return the request that replies to a question; ApiError if it is invalid.

    An option is sent as its number, so that it reaches the engine unaltered. Named fields become lines.
    """
    sent = dict(_texts(form))
    asked = question.question if question else {"required_fields": []}
    options = question.suggestions if question else []
    parts = [_numbered(options, sent["option"])] if "option" in sent else []
    fields = ((name, sent.get(f"field-{number}", "")) for number, name in enumerate(asked["required_fields"]))
    parts += [f"{name}: {value}" for name, value in fields if value.strip()]
    request = {
        "interaction_id": sent.get("interaction_id", ""),
        "response": sent["text"] if "text" in sent else "\n".join(parts),
    }
    validation.check("#/components/schemas/Reply", request)
    return request


def idempotency_key(form: Mapping[str, str], request: dict[str, Any]) -> str:
    """Return a key that only the same form with the same content repeats, as on a double click."""
    text = json.dumps([form.get("form_id", ""), request])
    return f"page-{hashlib.sha256(text.encode()).hexdigest()}"


def _texts(form: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Return the fields of a form; browsers send a line break as two characters."""
    return ((name, text.replace("\r\n", "\n")) for name, text in form.items())


def _numbered(options: list[str], number: str) -> str:
    """Return the option with this number, or the number itself if unknown, since its question is closed."""
    is_known = number.isascii() and number.isdecimal() and len(number) < 6 and int(number) < len(options)  # noqa: PLR2004
    return options[int(number)] if is_known else f"option {number}"


def _schema(text: str) -> Any:
    try:
        return strict_json.parse(text)
    except (ValueError, RecursionError) as wrong:
        raise ApiError("INVALID_REQUEST", f"the output schema is not valid JSON: {str(wrong)[:200]}") from wrong
