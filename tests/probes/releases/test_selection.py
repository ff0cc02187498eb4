"""Choosing releases and clauses from what users type."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from semver import Version

from tests.tables import each
from turngate.errors import NotFoundError, UsageError
from turngate_probes.releases.selection import chosen, known_clauses, nearest, parse_shard

PUBLISHED = ("0.9.0", "0.100.0", "0.101.0-alpha", "0.101.0", "1.0.0", "0.99.1", "not-a-version")


@each(
    "spec, versions",
    [
        ("all", "0.9.0 0.99.1 0.100.0 0.101.0 1.0.0"),
        ("latest", "1.0.0"),
        ("latest:2", "0.101.0 1.0.0"),
        ("latest:99", "0.9.0 0.99.1 0.100.0 0.101.0 1.0.0"),
        (">=0.100", "0.100.0 0.101.0 1.0.0"),
        (">=0.99,<1", "0.99.1 0.100.0 0.101.0"),
        ("> 0.99.1 <= 0.101.0", "0.100.0 0.101.0"),
        ("=0.9", "0.9.0"),
        ("0.101.0-alpha", "0.101.0-alpha"),
        ("1.0.0, 0.9.0,1.0.0", "0.9.0 1.0.0"),
        ("7.7.7", "7.7.7"),
    ],
)
def test_versions_are_chosen_oldest_first(spec: str, versions: str) -> None:
    """Ranges are compared by version and leave out pre-releases; a list is used as given."""
    assert chosen(spec, PUBLISHED) == tuple(versions.split())


@each("spec", ["", "newest", "latest:0", "^1.0.0", ">=", ">=x", "0.100", "all,1.0.0", ">=1 foo"])
def test_what_names_no_versions_is_refused(spec: str) -> None:
    """Text that names no versions is rejected with a hint of what is allowed."""
    with pytest.raises(UsageError, match="does not select versions") as failed:
        chosen(spec, PUBLISHED)
    assert "latest:20" in failed.value.hint


def test_an_empty_range_names_what_there_is() -> None:
    """An empty range is an error that names the oldest and newest published version."""
    with pytest.raises(NotFoundError, match="no published release") as failed:
        chosen(">2", PUBLISHED)
    assert failed.value.hint == "published releases: 0.9.0 to 1.0.0"
    with pytest.raises(NotFoundError) as failed:
        chosen("all", ())
    assert failed.value.hint == "nothing is published"


def test_shards_are_read() -> None:
    """A shard is read as its number and the number of shards."""
    assert parse_shard("2/3") == (2, 3)


@each("text", ["0/1", "2/1", "1", "a/b", "1/0"])
def test_what_is_no_shard_is_refused(text: str) -> None:
    """Shards count from 1."""
    with pytest.raises(UsageError, match="is not a shard"):
        parse_shard(text)


def test_clauses_are_known_by_level() -> None:
    """A clause that is unknown or of another level is rejected with similar ones."""
    assert known_clauses(("help.surface", "help.surface"), "static") == ("help.surface",)
    for name, level, like in (
        ("resume.acepted", "hermetic", "resume.accepted"),
        ("nothing", "hermetic", "similar: interactive.nothing-started"),
        ("handle.place", "static", "its level is hermetic"),
        ("resume.long-sesion", "hermetic", "resume.long-session"),
        ("zzz", "hermetic", "`turngate explain` lists all of them"),
    ):
        with pytest.raises(NotFoundError, match="unknown clause") as failed:
            known_clauses((name,), level)
        assert like in failed.value.hint
        assert failed.value.hint.count(",") < 3


VERSIONS = st.builds(Version, *[st.integers(0, 3)] * 3)


@given(VERSIONS, st.lists(VERSIONS, unique=True))
def test_nearest_versions_enclose_the_one_asked_for(asked: Version, published: list[Version]) -> None:
    """The nearest versions are the published neighbours of the requested one."""
    near = [Version.parse(version) for version in nearest(str(asked), [str(version) for version in published])]
    assert near == sorted(near)
    below = max((version for version in published if version <= asked), default=None)
    above = min((version for version in published if version > asked), default=None)
    assert set(near) == {version for version in (below, above) if version is not None}
