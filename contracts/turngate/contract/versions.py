"""Release versions, the ranges of claims, and claims that change with releases."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct
from msgspec.structs import replace

from turngate.contract.values import NOT_EMPTY, OnlyTrue, Release, Releases, Text, matching

if TYPE_CHECKING:
    from semver import Version

Path_ = tuple[str | int, ...]


class ClaimEvidence(Struct, frozen=True):
    """One of `clause`, `recording` and `observed`.

    clause: The clause whose result proves the claim.
    recording: The recording that proves it: `<engine>/<version>/<case>-<step>`, or that of another output mode:
        `<engine>/<version>/<output>/<case>-<step>`.
    observed: What was run, and what happened.
    releases: The releases on which it was observed.
    """

    clause: Text | None = None
    recording: Text | None = None
    observed: Annotated[str, matching(r"\S")] | None = None
    releases: Annotated[tuple[Releases, ...], NOT_EMPTY] = ()


class Basis(Struct, frozen=True):
    """The releases for which a claim holds, from `since` up to but not including `until`, and its evidence.

    evidence: What proves the claim.
    unverified: The claim has not been confirmed yet. A claim without evidence counts as unconfirmed, too. Reports say
        so.
    note: Background for readers.
    """

    since: Release | None = None
    until: Release | None = None
    evidence: Annotated[tuple[ClaimEvidence, ...], NOT_EMPTY] = ()
    unverified: OnlyTrue = False
    note: Text = ""


@cache
def parse(version: str) -> "Version":
    """Parse a release's version; ValueError if it is not a semantic version."""
    from semver import Version  # noqa: PLC0415 - slow to import, and not needed with a cached contract

    return Version.parse(version)


class Range(Struct, frozen=True):
    """From `since` (included) to `until` (excluded); None is open."""

    since: str | None = None
    until: str | None = None

    def covers(self, version: str | None) -> bool:
        """Return whether `version` is in the range; None means the newest release."""
        if version is None:
            return self.until is None
        at = parse(version)
        return (self.since is None or at >= parse(self.since)) and (self.until is None or at < parse(self.until))

    def overlaps(self, other: "Range") -> bool:
        """Return whether a version can be in both ranges."""
        return _before(self.since, other.until) and _before(other.since, self.until)

    def __str__(self) -> str:
        """Render as `0.1.0 up to but not including 0.2.0`, in the shortest true form."""
        if self.since and self.until:
            return f"{self.since} up to but not including {self.until}"
        if self.since:
            return f"from {self.since}"
        return f"before {self.until}" if self.until else "every release"


def _before(start: str | None, end: str | None) -> bool:
    return start is None or end is None or parse(start) < parse(end)


class Claim(Struct, frozen=True):
    """A claim in a file over one stretch of releases; `moved` are the paths of keys that its `entry` lacks."""

    path: Path_
    data: Mapping[str, Any]
    entry: Path_
    moved: Mapping[str | int, Path_] = {}

    @property
    def range(self) -> Range:
        """The releases for which it holds."""
        return Range(self.data.get("since"), self.data.get("until"))

    @property
    def evidence(self) -> Sequence[Mapping[str, Any]]:
        """Its evidence."""
        return self.data.get("evidence", ())  # type: ignore[no-any-return]

    def all_evidence(self) -> Iterator[tuple[Path_, Mapping[str, Any]]]:
        """Yield its evidence, and the evidence that it is safe in mode interactive, each with its path."""
        use = self.data.get("interactive")
        for within, data in ((), self.data), (("interactive",), use if isinstance(use, Mapping) else {}):
            yield from ((self.at(*within, "evidence", i), one) for i, one in enumerate(data.get("evidence", ())))

    def at(self, *path: str | int) -> Path_:
        """Return the path of a value, or of the claim itself."""
        return (*self.moved.get(path[0], (*self.entry, path[0])), *path[1:]) if path else self.path


def stretches(entry: Mapping[str, Any], path: Path_ = ()) -> list[Claim]:
    """Return the whole claim for each stretch of releases over which an entry stays the same, the oldest first.

    A change replaces the keys under its `set`, and removes those that are null there. Its evidence and note replace the
    previous ones.
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
    """Return the content of a claim, without its range, evidence and note."""
    return {key: value for key, value in claim.items() if key not in Basis.__struct_fields__}


def dotted(path: Path_) -> str:
    """Render a path as `$.launch[0].resume`."""
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
