"""Looking into the records that an engine printed, by dotted paths as contracts write them."""

from collections.abc import Mapping
from typing import Any

from turngate.contract import Match

Record = Mapping[str, Any]


def value_at(record: Any, path: str) -> Any:
    """Follow a dotted path through nested objects; None where a step is missing."""
    for key in path.split("."):
        if not isinstance(record, Mapping):
            return None
        record = record.get(key)
    return record


def matches(record: Record, match: Match | None) -> bool:
    """Say whether the record has every value that `match` asks for (None asks for nothing)."""
    return match is None or all(value_at(record, path) == wanted for path, wanted in match.items())
