"""Parses JSON strictly: rejects data that is ambiguous, or that can't be stored and sent unaltered."""

import json
import math
from typing import Any

MAX_DEPTH = 100
MAX_DIGITS = 100
_TOO_LARGE = 10**MAX_DIGITS


class _Twice(dict[str, Any]):
    """An object in which `key` occurs twice."""

    key: str


def _paired(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    paired = dict(pairs)
    if len(paired) == len(pairs):
        return paired
    twice, keys = _Twice(paired), [key for key, _ in pairs]
    twice.key = next(key for i, key in enumerate(keys) if key in keys[:i])
    return twice


DECODER = json.JSONDecoder(object_pairs_hook=_paired)


def parse(text: str) -> Any:
    """Parse JSON; ValueError or RecursionError explains why it is rejected."""
    value = DECODER.decode(text)
    if wrong := flaw(value):
        raise ValueError(wrong)
    return value


def flaw(value: Any) -> str | None:
    """Return what is wrong with a value decoded by `DECODER`; None if it is valid."""
    waiting = [(value, 0)]
    while waiting:
        part, depth = waiting.pop()
        if depth > MAX_DEPTH:
            return f"data nested more than {MAX_DEPTH} levels deep"
        if isinstance(part, _Twice):
            return f"an object whose key {part.key[:80]!r} occurs twice"
        if isinstance(part, float) and not math.isfinite(part):
            return "a number that isn't valid JSON"
        if isinstance(part, int) and abs(part) >= _TOO_LARGE:
            return f"a number with more than {MAX_DIGITS} digits"
        if isinstance(part, str) and not _is_text(part):
            return "text with an unpaired surrogate"
        if isinstance(part, dict):
            waiting += ((inner, depth + 1) for pair in part.items() for inner in pair)
        elif isinstance(part, list):
            waiting += ((inner, depth + 1) for inner in part)
    return None


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
