from hypothesis import given
from hypothesis import strategies as st

from turngate.strict_json import DECODER
from turngate.turn.envelope import OPENING, scan

PIECES = (
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"a"',
    '"key"',
    '"',
    "\\",
    "1",
    "-",
    "01",
    "1.5",
    "e3",
    "true",
    "nul",
    "null",
    "NaN",
    "-Infinity",
    " ",
    "\n",
    '"\\u006bey"',
    '"\\ud8"',
    "\x01",
    '"\n"',
    "é",
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=10).map("".join)


@given(st.sampled_from("{["), TEXTS)
def test_scan_ends_where_the_decoder_does(opening: str, rest: str) -> None:
    """An object or list is complete if the decoder can read it, with the same end and the same keys."""
    text = opening + rest
    found = scan(text, 0, "key")
    try:
        value, end = DECODER.raw_decode(text)
    except ValueError:
        assert not found.is_complete
    else:
        assert (found.is_complete, found.end) == (True, end)
        assert found.has_key is (isinstance(value, dict) and "key" in value)
        assert OPENING.match(text) or not value


def test_key_counts_as_soon_as_it_is_read() -> None:
    """A key is known once its colon is read, or if the text is cut off right behind it; a value is no key."""
    assert not scan('{"key', 0, "key").has_key
    assert scan('{"key"', 0, "key").has_key
    assert scan('{"key": ', 0, "key").has_key
    assert not scan('{"key", 1', 0, "key").has_key
    assert not scan('{"a": "key"', 0, "key").has_key
    assert not scan('{"a": {"key": 1', 0, "key").has_key
    assert not scan('{"a": [{"key": 1', 0, "key").has_key
    assert scan('[[1], [{"key": 1', 0, "key").has_key


def test_list_that_can_not_be_read_counts_as_its_items() -> None:
    """Objects with the key in a broken list are named, but not those within other objects or complete lists."""
    text = '[{"key": 1}, [{"key": 2}], {"a": {"key": 3}}, {"a": 1}, [{"key": 4}, {"a": {"key": 5}, '
    assert [text[start:end] for start, end in scan(text, 0, "key").items] == ['{"key": 1}', '{"key": 4}']


def test_strings_with_openings_are_named() -> None:
    """The scan says which places of the readable part belong to a string that may hold an opening."""
    found = scan('{"a": ["[1", "b", "{"', 0, "key")
    assert [found.next_string(at) for at in (1, 8, 9, 15, 21)] == [7, 8, 9, 18, 21]
