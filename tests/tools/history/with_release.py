"""Adds a release to a history."""

from msgspec.structs import replace

from turngate.contract.versions import parse
from turngate.history import History, KnownRelease


def with_release(known: History, release: KnownRelease) -> History:
    """Return the history with a release added or replaced."""
    others = [one for one in known.releases if one.version != release.version]
    return replace(known, releases=tuple(sorted([*others, release], key=lambda one: parse(one.version))))
