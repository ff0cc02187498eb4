from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turngate.contract.versions import Range, bare, parse, stretches

VERSIONS = st.builds("{}.{}.{}".format, *[st.integers(0, 3)] * 3)
EDGES = st.none() | VERSIONS
RANGES = st.builds(Range, EDGES, EDGES)
EVERY = tuple(f"{a}.{b}.{c}" for a, b, c in product(range(5), repeat=3))


def test_since_is_included_and_until_excluded() -> None:
    """A range holds its first release and not the one at which it ends."""
    held = Range("0.9.0", "0.10.0")
    assert [held.covers(v) for v in ("0.8.9", "0.9.0", "0.9.99", "0.10.0")] == [False, True, True, False]


def test_versions_are_ordered_as_numbers() -> None:
    """0.100.0 is newer than 0.99.0, which sorting as text would deny."""
    assert Range(since="0.99.0").covers("0.100.0")


@pytest.mark.parametrize(
    "version, covered", [("1.0.0-rc.1", False), ("1.0.0", True), ("2.0.0-rc.1", True), ("2.0.0", False)]
)
def test_prerelease_comes_before_its_release(version: str, covered: bool) -> None:  # noqa: FBT001
    """A pre-release belongs to what was before the release that it announces."""
    assert Range("1.0.0", "2.0.0").covers(version) is covered


def test_newest_lies_in_open_ranges_alone() -> None:
    """Without a version the newest release is meant, which no range with an end can hold."""
    assert Range().covers(None)
    assert Range("1.0.0").covers(None)
    assert not Range(None, "9.9.9").covers(None)


@pytest.mark.parametrize("text", ["", "1", "0.14", "v1.0.0", "1.0.0\n", "1.0.0 ", "01.0.0", "latest", "1.0.0.0"])
def test_what_is_no_semantic_version_is_refused(text: str) -> None:
    """A version that could be read in two ways raises instead of being guessed at."""
    with pytest.raises(ValueError, match="SemVer"):
        parse(text)


@given(RANGES, RANGES)
def test_overlap_is_a_shared_version(one: Range, other: Range) -> None:
    """Two ranges overlap exactly where some release lies in both."""
    shared = any(one.covers(v) and other.covers(v) for v in EVERY)
    empty = any(not any(each.covers(v) for v in EVERY) for each in (one, other))
    assert empty or one.overlaps(other) == shared
    assert one.overlaps(other) == other.overlaps(one)


@pytest.mark.parametrize(
    "held, said",
    [
        (Range(), "every release"),
        (Range("1.0.0"), "from 1.0.0"),
        (Range(None, "2.0.0"), "before 2.0.0"),
        (Range("1.0.0", "2.0.0"), "1.0.0 up to but without 2.0.0"),
    ],
)
def test_range_is_told_in_words(held: Range, said: str) -> None:
    """A range reads as a person would say it."""
    assert str(held) == said


CLAIM = {
    "a": 1, "b": 2, "until": "9.0.0", "note": "old", "evidence": [1],
    "changes": [
        {"since": "1.0.0", "set": {"b": None, "c": 3}, "evidence": [2]},
        {"since": "2.0.0", "unverified": True},
    ],
}  # fmt: skip


def test_a_change_replaces_adds_and_removes_keys() -> None:
    """Each stretch ends where the next begins, the last where the claim ends; evidence and note are its own."""
    assert [claim.data for claim in stretches(CLAIM)] == [
        {"a": 1, "b": 2, "note": "old", "evidence": [1], "until": "1.0.0"},
        {"a": 1, "c": 3, "since": "1.0.0", "evidence": [2], "until": "2.0.0"},
        {"a": 1, "c": 3, "since": "2.0.0", "unverified": True, "until": "9.0.0"},
    ]
    assert bare(stretches(CLAIM)[1].data) == {"a": 1, "c": 3}
    assert [claim.data for claim in stretches({"a": 1})] == [{"a": 1}]


def test_a_place_is_where_the_key_was_written() -> None:
    """In the change that set it last, else in the entry."""
    later = stretches(CLAIM, ("help", 0))[2]
    assert later.path == ("help", 0, "changes", 1)
    assert later.at("a", 7) == ("help", 0, "a", 7)
    assert later.at("c") == ("help", 0, "changes", 0, "set", "c")
    assert later.at("since") == ("help", 0, "changes", 1, "since")
