"""Schemas and data that take too much time or memory."""

import time
from collections.abc import Callable
from typing import Any

from tests.patience import PATIENCE

ENDLESS = 1e6  # CPU seconds
BACKTRACKING = {"properties": {"x": {"pattern": "^(a+)+$"}}}
BACKTRACKED = {"x": "a" * 64 + "!"}
# each alternative that doesn't match leaves a message that holds the whole text
BLOATING = {"properties": {"x": {"anyOf": [{"type": "integer"}] * 1000}}}
BLOATED = {"x": "a" * 2**20}


def doubling(levels: int = 24) -> dict[str, Any]:
    """Return a schema whose definitions each include the next one twice."""
    definitions: dict[str, Any] = {
        f"level{level}": {"allOf": [{"$ref": f"#/$defs/level{level + 1}"}] * 2} for level in range(levels)
    }
    return {"$ref": "#/$defs/level0", "$defs": definitions | {f"level{levels}": True}}


def until(happened: Callable[[], bool]) -> None:
    """Wait until something has happened."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)
