import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import each
from turngate import strict_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_what_json_can_say_comes_back(value: object) -> None:
    """Every JSON value is read unchanged."""
    assert strict_json.parse(json.dumps(value)) == value


@each(
    "text, said",
    [
        ('{"a": {"b": 1, "c": 2, "c": 3, "b": 4}}', "whose key 'c' occurs twice"),
        ("[NaN]", "isn't valid JSON"),
        ("1e999", "isn't valid JSON"),
        ('{"\\udc00": 1}', "surrogate"),
        ("[" * 102 + "]" * 102, "more than 100 levels deep"),
        ("1" + "0" * 100, "a number with more than 100 digits"),
        ("-1" + "0" * 400, "a number with more than 100 digits"),
        ("{'a': 1}", "property name"),
    ],
)
def test_the_rest_is_reported(text: str, said: str) -> None:
    """Ambiguous JSON, or JSON that can't be written again, is rejected with the reason."""
    with pytest.raises(ValueError, match=said):
        strict_json.parse(text)
