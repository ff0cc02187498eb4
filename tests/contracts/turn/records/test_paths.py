from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contracts.turn.plain import at
from tests.tables import each
from turngate.turn.records import Record, both, getter, matches, obstacle_at, unmatched, value_at

RECORD: dict[str, Any] = {
    "type": "message",
    "content": [{"type": "thinking"}, {"text": "hi", "empty": None}],
    "sessions": [],
    "error": "no",
    "0": {"1": "key"},
    "count": 7,
    "ok": True,
}


@each(
    "path, value",
    [
        ("type", "message"),
        ("content.1.text", "hi"),
        ("content.0.type", "thinking"),
        ("content.0", {"type": "thinking"}),
        ("content.2.text", None),
        ("content.-1.text", "hi"),
        ("content.-2.type", "thinking"),
        ("content.-3.type", None),
        ("content.text", None),
        ("content.0.text", None),
        ("sessions.0.id", None),
        ("error.0", None),
        ("count.0", None),
        ("0.1", "key"),
    ],
)
def test_a_path_leads_through_objects_and_lists(path: str, value: object) -> None:
    """A number is an index from 0 in a list, and a key in an object; text has no parts."""
    assert value_at(RECORD, path) == value


STEPS = st.sampled_from(("a", "b", "0", "1", "-1"))
PATHS = st.lists(STEPS, min_size=1, max_size=4).map(".".join)
VALUES = st.recursive(
    st.sampled_from((None, True, 0, 1.5, "", "text")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(STEPS, inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(STEPS, VALUES, max_size=4), PATHS, PATHS)
def test_any_path_leads_where_its_steps_lead(record: Record, one: str, other: str) -> None:
    """The value at a path is that of following it step by step, alone or with a second path."""
    seen: list[tuple[object, object]] = []
    both(one, other, lambda first, second: seen.append((first, second)))(record, 0)
    wanted = at(record, one), at(record, other)
    assert (getter(one)(record), getter(other)(record)) == wanted
    assert seen == [wanted]


def test_a_match_may_ask_for_a_value_in_a_list() -> None:
    """A record matches if each path has the wanted value."""
    assert matches(RECORD, {"content.0.type": "thinking", "count": 7})
    assert not matches(RECORD, {"content.1.type": "thinking"})


@each(
    "path, steps, said",
    [
        ("colour", 0, ""),
        ("colour.red", 0, ""),
        ("sessions.0.id", 1, "`sessions` is a list, and it has no item 0"),
        ("content.0.text", 2, "`content` is a list, and `content.0` has no `text`"),
        ("content.1.empty", 2, "`content` is a list, and `content.1.empty` is null"),
        ("content.text", 1, "`content` is a list, and `text` isn't an index such as `content.0`"),
        ("content", 1, "`content` is a list"),
        ("error.message", 1, "`error` is text"),
        ("count.x", 1, "`count` is a number"),
        ("ok.x", 1, "`ok` is a boolean"),
        ("0.2", 1, "`0` has no `2`"),
        ("0", 1, "`0` is an object"),
    ],
)
def test_what_is_in_the_place_of_a_path(path: str, steps: int, said: str) -> None:
    """An obstacle is the last thing that the path reaches, with each list on the way."""
    assert obstacle_at(RECORD, path) == (steps, said)


@pytest.mark.parametrize(
    "records, where, obstacle, said",
    [
        (14, "", "`content` is a list", "`content.0.text` matched none of 14 records; `content` is a list"),
        (1, " where type = 'x'", "", "`content.0.text` matched nothing in the only record where type = 'x'"),
    ],
)
def test_an_unmatched_path_is_named(records: int, where: str, obstacle: str, said: str) -> None:
    """The sentence names path, number of records, and obstacle."""
    assert unmatched("content.0.text", records, where, obstacle=obstacle) == said


def test_a_value_that_is_no_text_is_told_from_none() -> None:
    """A path to something else than text matched no text."""
    said = unmatched("content", 2, obstacle="`content` is a list", text=True)
    assert said == "`content` matched no text in 2 records; `content` is a list"
