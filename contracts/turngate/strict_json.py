"""Parses JSON strictly: rejects data that is ambiguous, or that can't be stored and sent unaltered."""

import json
import math
from collections.abc import Iterable
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
    twice, seen = _Twice(paired), set[str]()
    for key, _ in pairs:
        if key in seen:
            twice.key = key
            break
        seen.add(key)
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
    waiting: list[tuple[Iterable[Any], int]] = [((value,), 0)]
    while waiting:
        parts, depth = waiting.pop()
        for part in parts:
            if depth > MAX_DEPTH:
                return f"data nested more than {MAX_DEPTH} levels deep"
            if isinstance(part, dict):
                if isinstance(part, _Twice):
                    return f"an object whose key {part.key[:80]!r} occurs twice"
                waiting += ((part.values(), depth + 1), (part.keys(), depth + 1))
            elif isinstance(part, list):
                waiting.append((part, depth + 1))
            elif wrong := _flaw_of_one(part):
                return wrong
    return None


def _flaw_of_one(part: Any) -> str | None:
    """Return what is wrong with a value that holds no others."""
    if isinstance(part, str):
        return None if part.isascii() or is_text(part) else "text with an unpaired surrogate"
    if isinstance(part, int):
        return None if abs(part) < _TOO_LARGE else f"a number with more than {MAX_DIGITS} digits"
    return "a number that isn't valid JSON" if isinstance(part, float) and not math.isfinite(part) else None


def is_text(text: str) -> bool:
    """Whether a text can be written as UTF-8: it has no unpaired surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
