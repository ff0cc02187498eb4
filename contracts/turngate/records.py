"""Looking into the records that an engine printed, by dotted paths as contracts write them."""

from functools import cache
from typing import Any

from turngate.contract import Match

Record = dict[str, Any]


def value_at(record: Any, path: str) -> Any:
    """Follow a dotted path through nested objects; None where a step is missing."""
    for key in _keys(path):
        # plain dicts alone come out of parsing, and this is run for most lines of long transcripts
        if record.__class__ is not dict:
            return None
        record = record.get(key)
    return record


def matches(record: Record, match: Match | None) -> bool:
    """Say whether the record has every value that `match` asks for (None asks for nothing)."""
    if match is not None:
        for path, wanted in match.items():
            if value_at(record, path) != wanted:
                return False
    return True


def shown(value: object) -> str:
    """Render a value as text; one that is nested deeper than Python can render is an ellipsis."""
    try:
        return str(value)
    except RecursionError:
        return "…"


@cache
def _keys(path: str) -> tuple[str, ...]:
    return tuple(path.split("."))
