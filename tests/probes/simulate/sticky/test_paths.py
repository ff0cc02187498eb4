from typing import Any

import pytest

from turngate_probes.simulate.sticky.paths import put_at


@pytest.mark.parametrize(
    "document, path, result",
    [
        ({}, "a", {"a": 7}),
        ({"a": {"b": 1}}, "a.c", {"a": {"b": 1, "c": 7}}),
        ({"a": 1}, "a.b", {"a": {"b": 7}}),
        ({}, "a.1.b", {"a": [None, {"b": 7}]}),
    ],
)
def test_a_value_is_set_at_its_path(document: dict[str, Any], path: str, result: dict[str, Any]) -> None:
    """Missing objects and lists on the way are created, and other values stay."""
    assert put_at(document, path, 7) == result
