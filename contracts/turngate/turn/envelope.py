"""Finds and validates the envelope with which an agent ends its turn (docs/protocol.md)."""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, get_args

import msgspec
from msgspec import Struct

from turngate.contract import load
from turngate.decoding import convert
from turngate.model import MAX_NAME, MAX_NAMES, MAX_PROMPT, Interaction, InteractionKind, Repair
from turngate.strict_json import DECODER, flaw

MAX_TEXT = 4 * 2**20
MAX_WORK = 16 * 2**20
KINDS: tuple[str, ...] = get_args(InteractionKind)
_FIELDS = set(Interaction.__struct_fields__)
_LISTS = ("options", "required_fields")
_KEYS = _FIELDS | {"outcome", "interaction", "final_data"}
_SHOWN = 10  # unknown keys in an error message
ATTEMPT = 256
STRIDE = 2**14
_FENCE = re.compile(r"```[A-Za-z0-9]*[ \t]*\n")
_OPENING = re.compile(r'\{\s*"')


class Envelope(Struct, frozen=True):
    """A valid envelope: a question, or final data; `repair` is the repair needed to read it."""

    interaction: Interaction | None
    final_data: Any
    repair: Repair


class BadEnvelope(Struct, frozen=True):
    """Something that claims to be an envelope but is invalid."""

    detail: str


def read_envelope(text: str) -> Envelope | BadEnvelope | None:
    """Read the one envelope in an answer; None: there is none; BadEnvelope: it is invalid, or several differ."""
    # for such short words, the search from the end is the faster one
    if text.rfind('"outcome"') < 0 and text.rfind("\\u") < 0:
        return None
    if len(text) > MAX_TEXT:
        return BadEnvelope(f"an answer of {len(text)} characters is too long to contain an envelope")
    try:
        envelopes, repair = _candidates(text)
    except _TooMuchWorkError:
        return BadEnvelope("the answer contains too many objects that aren't valid JSON")
    if not envelopes:
        return None
    # the cheap check first, since a list that is too long makes the others slow
    if wrong := next(filter(None, map(_excess, envelopes)), None) or next(filter(None, map(flaw, envelopes)), None):
        return BadEnvelope(wrong)
    # compared as text, since 1 equals True in Python
    if len(envelopes) > 1 and len({json.dumps(candidate, sort_keys=True) for candidate in envelopes}) > 1:
        return BadEnvelope(f"{len(envelopes)} different envelopes")
    if valid := validated(envelopes[0], repair):
        return valid
    # the schema's error messages take seconds for much data, so they are made for what breaks the same rule in little
    return BadEnvelope(load.first_error("envelope", _outline(envelopes[0])) or "it is invalid")


def validated(data: dict[str, Any], repair: Repair) -> Envelope | None:
    """Return data as an envelope, checked by the rules of `schema/envelope.json`; None if it is invalid."""
    match data:
        case {"outcome": "final", "final_data": dict(final), **rest} if not rest:
            return Envelope(None, final, repair)
        case {"outcome": "ask_user", "interaction": dict(asked), **rest} if not rest and asked.keys() == _FIELDS:
            with suppress(msgspec.ValidationError):
                interaction = convert(asked, Interaction)
                named = {"choose_one": interaction.options, "fill_fields": interaction.required_fields}
                return Envelope(interaction, None, repair) if named.get(interaction.kind, True) else None
    return None


def _excess(data: dict[str, Any]) -> str | None:
    """Return which list of a question has too many entries; they are not looked at."""
    asked = data.get("interaction")
    for name, entries in asked.items() if isinstance(asked, dict) else ():
        if name in _LISTS and isinstance(entries, list) and len(entries) > MAX_NAMES:
            return f"$.interaction.{name}: {len(entries)} entries, but at most {MAX_NAMES} are allowed"
    return None


def _outline(data: dict[str, Any], inner: str = "interaction") -> dict[str, Any]:
    """Return as much of an envelope as shows which rule of the schema it breaks."""
    unknown = islice((key for key in data if key not in _KEYS), _SHOWN)
    return {key[:MAX_NAME]: _cut(key, data[key], inner) for key in (*(_KEYS & data.keys()), *unknown)}


def _cut(key: str, value: Any, inner: str = "") -> Any:
    if isinstance(value, dict):
        return _outline(value, "") if key == inner else {}
    if isinstance(value, list):
        return [_cut("", item) for item in value[: MAX_NAMES + 1]] if key in _LISTS else []
    return value[: (MAX_PROMPT if key == "prompt" else MAX_NAME) + 1] if isinstance(value, str) else value


def json_object(text: str) -> dict[str, Any] | None:
    """Return an answer that is one JSON object, with or without a code fence; None for any other answer."""
    fenced = _fenced(text)
    value = _whole(text if fenced is None else fenced)
    return value if isinstance(value, dict) and not flaw(value) else None


def _candidates(text: str) -> tuple[list[dict[str, Any]], Repair]:
    whole = _whole(text)
    if isinstance(whole, dict):
        return ([whole] if "outcome" in whole else []), Repair.NONE
    fenced = _fenced(text)
    inside = None if fenced is None else _whole(fenced)
    if isinstance(inside, dict):
        return ([inside] if "outcome" in inside else []), Repair.FENCE_STRIPPED
    return [value for value in _objects(text) if "outcome" in value], Repair.EMBEDDED_OBJECT


def _fenced(text: str) -> str | None:
    """Return the content of a code fence that spans the whole text; None if there is none."""
    stripped = text.strip()
    opening = _FENCE.match(stripped)
    return stripped[opening.end() : -3] if opening and stripped.endswith("```", opening.end()) else None


def _whole(text: str) -> Any:
    try:
        return DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


class _TooMuchWorkError(Exception):
    """The search for objects in this text is too slow."""


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Return the outermost JSON objects in a text; nested ones are not searched."""
    at, work = 0, 0
    while opening := _OPENING.search(text, at):
        at = opening.start()
        if at > STRIDE:
            # an error counts the lines before it, which is slow for late offsets
            text, at = text[at:], 0
        try:
            value, end = DECODER.raw_decode(text, at)
        except json.JSONDecodeError as broken:
            work += ATTEMPT + broken.pos - at
            at += 1
        except (ValueError, RecursionError):
            work += MAX_WORK // 8
            at += 1
        else:
            at = end
            yield value
        if work > MAX_WORK:
            raise _TooMuchWorkError
