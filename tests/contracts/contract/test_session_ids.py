import pytest

from turngate.contract.session_ids import filled, folder_word, names_in, slots


def test_variables_have_their_values_else_their_defaults() -> None:
    """Variables have their values, else their defaults; a default may use HOME and earlier variables.

    Empty means unset.
    """
    locations = {"A": "{HOME}/a", "B": "{A}/b"}
    assert slots(locations, {"HOME": "/h"}) == {"HOME": "/h", "A": "/h/a", "B": "/h/a/b"}
    assert slots(locations, {"HOME": "/h", "A": "/x", "B": ""}) == {"HOME": "/h", "A": "/x", "B": "/x/b"}
    assert slots(locations, {"HOME": None, "B": "/y"}) == {"B": "/y"}


def test_values_are_filled_in_as_they_are() -> None:
    """Slots in a value are not filled; a slot may be cut; a missing value is an error."""
    assert filled("{A}/{handle:3}-{handle}", {"A": "{handle}", "handle": "abcdef"}) == "{handle}/abc-abcdef"
    with pytest.raises(KeyError):
        filled("{B}", {"A": ""})
    assert names_in("{A}/{handle:3}/{cwd}*") == {"A", "handle", "cwd"}


def test_a_directory_becomes_one_word() -> None:
    """Everything except letters and digits becomes a dash."""
    assert folder_word("/a b/ć.d") == "-a-b---d"
