"""Finds and validates the envelope with which an agent ends its turn (docs/protocol.md)."""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, get_args

import msgspec
from msgspec import Struct

from turngate.contract import load
from turngate.decoding import convert
from turngate.model import MAX_NAME, MAX_NAMES, MAX_PROMPT, Interaction, InteractionKind, Repair
from turngate.strict_json import DECODER, flaw
from turngate.turn.json_scan import OPENING, Scan, scan

MAX_TEXT = 4 * 2**20
MAX_BROKEN = 2**16
KINDS: tuple[str, ...] = get_args(InteractionKind)
_FIELDS = set(Interaction.__struct_fields__)
_LISTS = ("options", "required_fields")
_KEYS = _FIELDS | {"outcome", "interaction", "final_data"}
_SHOWN = 10  # unknown keys in an error message
_FENCE = re.compile(r"```[A-Za-z0-9]*[ \t]*\n")
# the beginning of a string, number or word
_CUT_OFF = re.compile(r'(?:"(?:[^"\\]|\\.)*+\\?|[-+.\w]*+)\s*+', re.DOTALL)


class Envelope(Struct, frozen=True):
    """A valid envelope: a question, or final data; `repair` is the repair needed to read it."""

    interaction: Interaction | None
    final_data: Any
    repair: Repair


class BadEnvelope(Struct, frozen=True):
    """Something that claims to be an envelope but is invalid."""

    detail: str


def read_envelope(text: str) -> Envelope | BadEnvelope | None:
    """Read the one envelope in an answer; None: there is none; BadEnvelope: it is invalid, or several differ.

    An object that can't be read to its end is an envelope too if the part before that has the key `outcome`.
    """
    # for such short words, the search from the end is the faster one
    if text.rfind('"outcome"') < 0 and text.rfind("\\u") < 0:
        return None
    if len(text) > MAX_TEXT:
        return BadEnvelope(f"an answer of {len(text)} characters is too long to contain an envelope")
    try:
        envelopes, repair = _candidates(text)
    except _BrokenError as broken:
        return BadEnvelope(str(broken))
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
    if (whole := _whole(text)) is not None:
        return _envelopes([whole]), Repair.NONE
    fenced = _fenced(text)
    if fenced is not None and (inside := _whole(fenced)) is not None:
        return _envelopes([inside]), Repair.FENCE_STRIPPED
    return _envelopes(_embedded(text)), Repair.EMBEDDED_OBJECT


def _envelopes(values: Iterable[Any]) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict) and "outcome" in value]


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


class _BrokenError(Exception):
    """The text holds an envelope that can't be read, or can't be searched."""


def _embedded(text: str) -> Iterator[Any]:
    """Return the outermost JSON objects and lists in a text; _BrokenError if one of them is a broken envelope.

    A list that can't be read to its end is prose around its items. Each character is scanned at most twice: as part of
    a string and as part of what is between strings.
    """
    at, left = 0, MAX_BROKEN
    broken: list[Scan] = []
    while opening := OPENING.search(text, at):
        at = opening.start()
        broken = [outer for outer in broken if at < outer.end]
        # what it is part of has been scanned; but a string may be one only because of prose before it
        after = max((outer.next_string(at) for outer in broken), default=at)
        if after > at:
            at = after
            continue
        found = scan(text, at, "outcome")
        if found.is_complete:
            yield _decoded(text[at : found.end], has_key=found.has_key)
            at = found.end
            continue
        if found.has_key:
            raise _BrokenError(_why_broken(text, found))
        for start, end in found.items:
            yield _decoded(text[start:end], has_key=True)
        left -= 1
        if left < 0:
            raise _BrokenError("the answer contains too many objects that aren't valid JSON")
        broken.append(found)
        at += 1


def _decoded(text: str, *, has_key: bool) -> Any:
    try:
        return DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        if not has_key:
            return None
        deep = isinstance(error, RecursionError)
        raise _BrokenError("data nested too deep" if deep else "a number that is too long") from error


def _why_broken(text: str, found: Scan) -> str:
    rest = text[found.end :]
    if _CUT_OFF.fullmatch(rest):
        return "the envelope is cut off"
    return f"the envelope isn't valid JSON: it breaks off before {rest.rstrip()[:20]!r}, at character {found.end + 1}"
