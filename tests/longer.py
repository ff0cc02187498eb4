"""Leaves the later values of a parameter to `make night`."""

from collections.abc import Iterable
from typing import Any

import pytest

LEFT_TO_NIGHT = (pytest.mark.long, pytest.mark.nightly)


def first_quick(values: Iterable[Any], quick: int = 1) -> list[Any]:
    """Mark all values but the first `quick` ones to run at night; a tuple holds the values of several parameters."""
    return [value if n < quick else _long(value) for n, value in enumerate(values)]


def only_quick(values: Iterable[Any], *quick: Any) -> list[Any]:
    """Mark all values but those in `quick` to run at night; a tuple holds the values of several parameters."""
    return [value if value in quick else _long(value) for value in values]


def _long(value: Any) -> Any:
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=LEFT_TO_NIGHT)
