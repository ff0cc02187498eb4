"""Leaves the later values of a parameter to `make long`."""

from collections.abc import Iterable
from typing import Any

import pytest


def first_quick(values: Iterable[Any], quick: int = 1) -> list[Any]:
    """Mark all values but the first `quick` ones as long."""
    return [value if n < quick else pytest.param(value, marks=pytest.mark.long) for n, value in enumerate(values)]


def only_quick(values: Iterable[Any], *quick: Any) -> list[Any]:
    """Mark all values but those in `quick` as long."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.long) for value in values]
