"""Finds and validates the envelope with which an agent ends its turn (the turn protocol of the design)."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from turngate import load
from turngate.model import Interaction, Repair

MAX_TEXT = 4 * 2**20
MAX_WORK = 16 * 2**20
_FENCE = re.compile(r"\A\s*```[A-Za-z0-9]*[ \t]*\n(?P<inside>.*?)\n?[ \t]*```\s*\Z", re.DOTALL)
_OPENING = re.compile(r'\{\s*"')


@dataclass(frozen=True, slots=True)
class Envelope:
    """A valid envelope: a question, or final data; `repair` says what was needed to find it."""

    interaction: Interaction | None
    final_data: Any
    repair: Repair


@dataclass(frozen=True, slots=True)
class BadEnvelope:
    """Something that claims to be an envelope and is none."""

    detail: str


def read_envelope(text: str) -> Envelope | BadEnvelope | None:
    """Read the one envelope in an answer; None: there is none; BadEnvelope: it is invalid, or they differ."""
    if '"outcome"' not in text:
        return None
    if len(text) > MAX_TEXT:
        return BadEnvelope(f"an answer of {len(text)} characters is too long to hold an envelope")
    try:
        found, repair = _candidates(text)
    except _TooMuchWorkError:
        return BadEnvelope("the answer opens too many objects that are no JSON")
    if not found:
        return None
    if any(candidate != found[0] for candidate in found):
        return BadEnvelope(f"{len(found)} envelopes that differ")
    wrong = load.first_error("envelope", found[0])
    if wrong:
        return BadEnvelope(wrong)
    return _valid(found[0], repair)


def json_object(text: str) -> dict[str, Any] | None:
    """Give the JSON object that an answer is, with or without a fence round it; None if it is none."""
    fenced = _FENCE.match(text)
    found = _whole(fenced["inside"] if fenced else text)
    return found if isinstance(found, dict) else None


def _valid(data: dict[str, Any], repair: Repair) -> Envelope:
    asked = data.get("interaction")
    if asked is None:
        return Envelope(None, data["final_data"], repair)
    options, fields = tuple(asked["options"]), tuple(asked["required_fields"])
    return Envelope(Interaction(asked["kind"], asked["prompt"], options, fields, asked["context"]), None, repair)


def _candidates(text: str) -> tuple[list[dict[str, Any]], Repair]:
    whole = _whole(text)
    if isinstance(whole, dict):
        return ([whole] if "outcome" in whole else []), Repair.NONE
    fenced = _FENCE.match(text)
    inside = _whole(fenced["inside"]) if fenced else None
    if isinstance(inside, dict):
        return ([inside] if "outcome" in inside else []), Repair.FENCE_STRIPPED
    return [found for found in _objects(text) if "outcome" in found], Repair.EMBEDDED_OBJECT


def _whole(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


class _TooMuchWorkError(Exception):
    """The text makes the search for objects too dear."""


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """Give the outermost JSON objects in a text; what lies inside one is not looked at again."""
    decoder, at, work = json.JSONDecoder(), 0, 0
    while opening := _OPENING.search(text, at):
        at = opening.start()
        try:
            found, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as broken:
            work += broken.pos - at
            at += 1
        except RecursionError:
            work += MAX_WORK // 8
            at += 1
        else:
            at = end
            yield found
        if work > MAX_WORK:
            raise _TooMuchWorkError
