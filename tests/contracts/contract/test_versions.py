from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contracts.contract.small import SMALL, line_of, mistakes_in
from tests.tables import each
from turngate.contract import load
from turngate.contract.versions import Range, bare, dotted, parse, stretches
from turngate.errors import NotCoveredError

VERSIONS = st.builds("{}.{}.{}".format, *[st.integers(0, 3)] * 3)


EDGES = st.none() | VERSIONS


RANGES = st.builds(Range, EDGES, EDGES)


EVERY = tuple(f"{a}.{b}.{c}" for a, b, c in product(range(5), repeat=3))


def test_since_is_included_and_until_excluded() -> None:
    """A range includes its first release and excludes the one at which it ends."""
    held = Range("0.9.0", "0.10.0")
    assert [held.covers(v) for v in ("0.8.9", "0.9.0", "0.9.99", "0.10.0")] == [False, True, True, False]


def test_versions_are_ordered_as_numbers() -> None:
    """Versions are compared as numbers: 0.100.0 is newer than 0.99.0."""
    assert Range(since="0.99.0").covers("0.100.0")


@pytest.mark.parametrize(
    "version, covered", [("1.0.0-rc.1", False), ("1.0.0", True), ("2.0.0-rc.1", True), ("2.0.0", False)]
)
def test_prerelease_comes_before_its_release(version: str, covered: bool) -> None:  # noqa: FBT001
    """A pre-release belongs to the range before the release that it announces."""
    assert Range("1.0.0", "2.0.0").covers(version) is covered


def test_newest_lies_in_open_ranges_alone() -> None:
    """Without a version the newest release is meant, which only an open range includes."""
    assert Range().covers(None)
    assert Range("1.0.0").covers(None)
    assert not Range(None, "9.9.9").covers(None)


@each("text", ["", "1", "0.14", "v1.0.0", "1.0.0\n", "1.0.0 ", "01.0.0", "latest", "1.0.0.0"])
def test_what_is_no_semantic_version_is_refused(text: str) -> None:
    """An ambiguous version raises an error."""
    with pytest.raises(ValueError, match="SemVer"):
        parse(text)


@given(RANGES, RANGES)
def test_overlap_is_a_shared_version(one: Range, other: Range) -> None:
    """Two ranges overlap if and only if some release is in both."""
    shared = any(one.covers(v) and other.covers(v) for v in EVERY)
    empty = any(not any(held.covers(v) for v in EVERY) for held in (one, other))
    assert empty or one.overlaps(other) == shared
    assert one.overlaps(other) == other.overlaps(one)


@pytest.mark.parametrize(
    "held, said",
    [
        (Range(), "every release"),
        (Range("1.0.0"), "from 1.0.0"),
        (Range(None, "2.0.0"), "before 2.0.0"),
        (Range("1.0.0", "2.0.0"), "1.0.0 up to but not including 2.0.0"),
    ],
)
def test_range_is_reported_in_words(held: Range, said: str) -> None:
    """A range is described in plain words."""
    assert str(held) == said


CLAIM = {
    "a": 1,
    "b": 2,
    "until": "9.0.0",
    "note": "old",
    "evidence": [1],
    "changes": [
        {"since": "1.0.0", "set": {"b": None, "c": 3}, "evidence": [2]},
        {"since": "2.0.0", "unverified": True},
    ],
}


def test_a_change_replaces_adds_and_removes_keys() -> None:
    """Each change replaces, adds and removes keys from its release on, with its own evidence and note."""
    assert [claim.data for claim in stretches(CLAIM)] == [
        {"a": 1, "b": 2, "note": "old", "evidence": [1], "until": "1.0.0"},
        {"a": 1, "c": 3, "since": "1.0.0", "evidence": [2], "until": "2.0.0"},
        {"a": 1, "c": 3, "since": "2.0.0", "unverified": True, "until": "9.0.0"},
    ]
    assert bare(stretches(CLAIM)[1].data) == {"a": 1, "c": 3}
    assert [claim.data for claim in stretches({"a": 1})] == [{"a": 1}]


def test_a_place_is_where_the_key_was_written() -> None:
    """A key's place is in the change that set it last, else in the entry."""
    later = stretches(CLAIM, ("help", 0))[2]
    assert later.path == ("help", 0, "changes", 1)
    assert later.at("a", 7) == ("help", 0, "a", 7)
    assert later.at("c") == ("help", 0, "changes", 0, "set", "c")
    assert later.at("since") == ("help", 0, "changes", 1, "since")


LISTED = "  - {transport: none, unverified: true}\n"


CHANGED = """\
  transport: none
  unverified: true
  until: 3.0.0
  changes:
    - since: 1.0.0
      set: {transport: acp, argv: [--acp, "{options}"], interactive: {mode: ask}, permission_requests: [x],
            keeps_session_id: true, private_store: true, one_time: {allow: once, deny: never}}
      evidence: [{clause: resume.accepted}]
    - {since: 2.0.0, set: {argv: [acp, "{options}"]}, evidence: [{clause: resume.repeated}]}
"""


def test_an_entry_may_say_what_changed() -> None:
    """Each change replaces keys from its release on, and has its own evidence."""
    text = SMALL.replace(LISTED, CHANGED)
    assert mistakes_in(text) == []
    contracts = [load.Contract(load.parse(text, "f")).at(version) for version in ("0.9.0", "1.5.0", "2.0.0")]
    assert [contract.sticky.transport for contract in contracts] == ["none", "acp", "acp"]
    assert [contract.sticky.argv[:1] for contract in contracts] == [(), ("--acp",), ("acp",)]
    assert ["sticky" in contract.unverified for contract in contracts] == [True, False, False]
    with pytest.raises(NotCoveredError, match=r"covers before 1.0.0, 1.0.0 up to but not including 2.0.0, 2.0.0 up to"):
        load.Contract(load.parse(text, "f")).at("3.0.0")


@each(
    "old, new, path, message",
    [
        ("since: 2.0.0", "since: 1.0.0", "changes[1].since", "1.0.0 is not after 1.0.0"),
        ("until: 3.0.0", "until: 2.0.0", "until", "2.0.0 is not after 2.0.0"),
        ("argv: [acp", "argv: 3, auto: [acp", "changes[1].set.argv", "3 is not of type 'array'"),
        ("argv: [acp", "agrv: [acp", "changes[1].set.agrv", "unknown key 'agrv'"),
        ("argv: [acp", "keeps_session_id: null, argv: [acp", "changes[1]", "'keeps_session_id' is a required property"),
        ("argv: [acp", "options: [--x], argv: [acp", "changes[1].set.options[0]", "--x isn't a declared option"),
        ("once, deny", "always, deny", "changes[0].set.one_time.allow", "always covers more than one action"),
        (
            "evidence: [{clause: resume.accepted}]\n",
            "evidence: [{clause: resume.accepted}]\n      unverified: true\n",
            "changes[0]",
            "is marked unverified",
        ),
        ("resume.repeated", "resume.repeats", "changes[1].evidence[0]", "unknown clause"),
        ("    - {since: 2.0.0,", "    - {", "changes[1]", "'since' is a required property"),
    ],
)
def test_what_is_wrong_with_a_change_is_reported_where_it_stands(old: str, new: str, path: str, message: str) -> None:
    """A changed entry is validated like any other, and each error is reported once, at its place."""
    assert CHANGED.count(old) == 1
    error = mistakes_in(SMALL.replace(LISTED, CHANGED.replace(old, new)))[0]
    assert (error.path, bool(error.hint)) == (f"$.sticky.{path}", True)
    assert message in error.what
    assert error.line > line_of(LISTED)


def test_a_mistake_in_an_entry_is_not_repeated_for_each_of_its_changes() -> None:
    """An error in an entry is not repeated for each of its changes."""
    text = CHANGED.replace("transport: none\n  unver", "transport: acp\n  options: [--x]\n  unver")
    assert [error.path for error in mistakes_in(SMALL.replace(LISTED, text))].count("$.sticky.options[0]") == 1


@pytest.mark.parametrize("path, shown", [((), "$"), (("a", 0, "b"), "$.a[0].b"), ((3,), "$[3]")])
def test_path_is_shown_as_people_write_it(path: tuple[str | int, ...], shown: str) -> None:
    """Paths in a document are written as in JSONPath."""
    assert dotted(path) == shown
