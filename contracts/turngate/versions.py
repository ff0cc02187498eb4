"""Release versions and the ranges that claims hold for (Semantic Versioning 2.0.0)."""

from functools import cache

from msgspec import Struct
from semver import Version


@cache
def parse(text: str) -> Version:
    """Read a release's version; raises ValueError when it is not a semantic version."""
    return Version.parse(text)


class Range(Struct, frozen=True):
    """From `since` (included) to `until` (excluded); None is open."""

    since: str | None = None
    until: str | None = None

    def covers(self, version: str | None) -> bool:
        """Say whether `version` lies in the range; None stands for the newest release there is."""
        if version is None:
            return self.until is None
        at = parse(version)
        return (self.since is None or at >= parse(self.since)) and (self.until is None or at < parse(self.until))

    def overlaps(self, other: "Range") -> bool:
        """Say whether some version lies in both ranges."""
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
