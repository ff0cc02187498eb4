"""Release versions, the ranges that claims hold for, and claims that change with releases."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import replace
from semver import Version

from turngate.contract.values import NOT_EMPTY, OnlyTrue, Release, Releases, Text, matching

Path_ = tuple[str | int, ...]


class ClaimEvidence(Struct, frozen=True):
    """One of `clause`, `recording` and `observed`.

    clause: The clause whose result shows the claim.
    recording: The recording that shows it: `<engine>/<version>/<case>-<step>`.
    observed: What was run, and what it did.
    releases: The releases on which it was observed.
    """

    clause: Text | None = None
    recording: Text | None = None
    observed: Annotated[str, matching(r"\S")] | None = None
    releases: Annotated[tuple[Releases, ...], NOT_EMPTY] = ()


class Basis(Struct, frozen=True):
    """The releases that a claim holds for, from `since` up to but without `until`, and what it rests on.

    evidence: What shows the claim.
    unverified: Nobody has seen the claim hold yet; reports say so.
    note: What a reader should know about the claim.
    """

    since: Release | None = None
    until: Release | None = None
    evidence: Annotated[tuple[ClaimEvidence, ...], NOT_EMPTY] = ()
    unverified: OnlyTrue = False
    note: Text = ""


# reads a release's version; raises ValueError when it is not a semantic version
parse = cache(Version.parse)


class Range(Struct, frozen=True):
    """From `since` (included) to `until` (excluded); None is open."""

    since: str | None = None
    until: str | None = None

    def covers(self, version: str | None) -> bool:
        """Return whether `version` is in the range; None stands for the newest release."""
        if version is None:
            return self.until is None
        at = parse(version)
        return (self.since is None or at >= parse(self.since)) and (self.until is None or at < parse(self.until))

    def overlaps(self, other: "Range") -> bool:
        """Return whether some version is in both ranges."""
        return _before(self.since, other.until) and _before(other.since, self.until)

    def __str__(self) -> str:
        """Render as `0.1.0 up to but without 0.2.0`, in the shortest true form."""
        if self.since and self.until:
            return f"{self.since} up to but without {self.until}"
        if self.since:
            return f"from {self.since}"
        return f"before {self.until}" if self.until else "every release"


def _before(start: str | None, end: str | None) -> bool:
    return start is None or end is None or parse(start) < parse(end)


class Claim(Struct, frozen=True):
    """A claim in a file over one stretch of releases; `moved` are the places of keys that its `entry` lacks."""

    path: Path_
    data: Mapping[str, Any]
    entry: Path_
    moved: Mapping[str | int, Path_] = {}

    @property
    def range(self) -> Range:
        """The releases that it holds for."""
        return Range(self.data.get("since"), self.data.get("until"))

    @property
    def evidence(self) -> Sequence[Mapping[str, Any]]:
        """What shows it."""
        return self.data.get("evidence", ())  # type: ignore[no-any-return]

    def all_evidence(self) -> Iterator[tuple[Path_, Mapping[str, Any]]]:
        """Yield what shows it, and what shows that it is safe in mode interactive, each with its place."""
        use = self.data.get("interactive")
        for within, data in ((), self.data), (("interactive",), use if isinstance(use, Mapping) else {}):
            yield from ((self.at(*within, "evidence", i), one) for i, one in enumerate(data.get("evidence", ())))

    def at(self, *path: str | int) -> Path_:
        """Return the place of a value, or of the claim itself."""
        return (*self.moved.get(path[0], (*self.entry, path[0])), *path[1:]) if path else self.path


def stretches(entry: Mapping[str, Any], path: Path_ = ()) -> list[Claim]:
    """Return the whole claim for each stretch of releases over which an entry stays the same, the oldest first.

    A change replaces the keys under its `set`, and removes those that are null there. Its evidence and note replace
    those before it.
    """
    data, moved = {key: value for key, value in entry.items() if key != "changes"}, dict[str | int, Path_]()
    claims = [Claim(path, data, path)]
    end = {"until": entry["until"]} if "until" in entry else {}
    for i, change in enumerate(entry.get("changes", ())):
        at = (*path, "changes", i)
        changed = bare(data) | change.get("set", {})
        basis = {key: change[key] for key in Basis.__struct_fields__ if key in change}
        claims[-1] = replace(claims[-1], data=data | {"until": change["since"]})
        data = {key: value for key, value in changed.items() if value is not None} | basis | end
        moved = moved | {key: (*at, "set", key) for key in change.get("set", ())} | {key: (*at, key) for key in basis}
        claims.append(Claim(at, data, path, moved))
    return claims


def bare(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a claim says, without its range, evidence and note."""
    return {key: value for key, value in claim.items() if key not in Basis.__struct_fields__}
