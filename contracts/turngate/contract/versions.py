"""Release versions, the ranges that claims hold for, and claims that change with releases."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from msgspec import Struct
from semver import Version

_OF_CLAIM = ("since", "until", "evidence", "unverified", "note")


@cache
def parse(text: str) -> Version:
    """Read a release's version; raises ValueError when it is not a semantic version."""
    return Version.parse(text)


class Range(Struct, frozen=True):
    """From `since` (included) to `until` (excluded); None is open."""

    since: str | None = None
    until: str | None = None

    def covers(self, version: str | None) -> bool:
        """Return whether `version` lies in the range; None stands for the newest release there is."""
        if version is None:
            return self.until is None
        at = parse(version)
        return (self.since is None or at >= parse(self.since)) and (self.until is None or at < parse(self.until))

    def overlaps(self, other: "Range") -> bool:
        """Return whether some version lies in both ranges."""
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


def stretches(claim: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the whole claim for each stretch of releases over which it stays the same, the oldest first.

    A change replaces the keys under its `set`, and removes those that are null there. Its evidence and note replace
    those before it.
    """
    found = [{key: value for key, value in claim.items() if key != "changes"}]
    for change in claim.get("changes", ()):
        before = found[-1]
        kept = {key: value for key, value in before.items() if key not in _OF_CLAIM}
        changed = {key: value for key, value in (kept | change.get("set", {})).items() if value is not None}
        about = {key: change[key] for key in _OF_CLAIM if key in change}
        found.append(changed | about | ({"until": before["until"]} if "until" in before else {}))
        before["until"] = change["since"]
    return found


def bare(claim: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a claim says, without its range, evidence and note."""
    return {key: value for key, value in claim.items() if key not in _OF_CLAIM}
