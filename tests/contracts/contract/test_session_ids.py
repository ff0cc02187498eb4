import pytest

from turngate.contract.session_ids import filled, folder_word, names_in, slots


def test_variables_have_their_values_else_their_defaults() -> None:
    """A default may use HOME and the variables before it; an empty variable counts as unset."""
    locations = {"A": "{HOME}/a", "B": "{A}/b"}
    assert slots(locations, {"HOME": "/h"}) == {"HOME": "/h", "A": "/h/a", "B": "/h/a/b"}
    assert slots(locations, {"HOME": "/h", "A": "/x", "B": ""}) == {"HOME": "/h", "A": "/x", "B": "/x/b"}
    assert slots(locations, {"HOME": None, "B": "/y"}) == {"B": "/y"}


def test_values_are_filled_in_as_they_are() -> None:
    """A value that looks like a slot stays what it is, a slot may be cut, and a missing value is an error."""
    assert filled("{A}/{handle:3}-{handle}", {"A": "{handle}", "handle": "abcdef"}) == "{handle}/abc-abcdef"
    with pytest.raises(KeyError):
        filled("{B}", {"A": ""})
    assert names_in("{A}/{handle:3}/{cwd}*") == {"A", "handle", "cwd"}


def test_a_directory_becomes_one_word() -> None:
    """Everything but letters and digits is a dash."""
    assert folder_word("/a b/ć.d") == "-a-b---d"
