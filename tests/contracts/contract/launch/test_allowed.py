from tests.tables import each
from turngate.contract.launch import AllowedValues


@each("value, allowed", [("low", True), ("high", True), ("LOW", False), ("lo", False), ("", False)])
def test_a_list_allows_its_values_alone(value: str, *, allowed: bool) -> None:
    """A list allows only its exact values; upper and lower case differ."""
    assert AllowedValues(values=("low", "high")).allow(value) is allowed


@each("value, allowed", [("a", True), ("aa", True), ("ab", False), ("a\n", False), ("\na", False)])
def test_a_pattern_must_match_the_whole_value(value: str, *, allowed: bool) -> None:
    """A pattern must match the whole value, including newlines at either end."""
    assert AllowedValues(pattern="a+").allow(value) is allowed
