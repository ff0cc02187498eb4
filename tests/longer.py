"""Leaves the later values of a parameter to `make long`."""

from collections.abc import Iterable
from typing import Any

import pytest


def first_quick(values: Iterable[Any], quick: int = 1) -> list[Any]:
    """Mark all values but the first `quick` ones as long; a tuple holds the values of several parameters."""
    return [value if n < quick else _long(value) for n, value in enumerate(values)]


def only_quick(values: Iterable[Any], *quick: Any) -> list[Any]:
    """Mark all values but those in `quick` as long; a tuple holds the values of several parameters."""
    return [value if value in quick else _long(value) for value in values]


def _long(value: Any) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.long)
