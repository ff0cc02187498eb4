"""Which recordings there are, and where they are found."""

import os
from pathlib import Path

from semver import Version


def folder() -> Path | None:
    """Find the recordings: `TURNGATE_FIXTURES`, else `fixtures` in the working directory or in our checkout."""
    asked = os.environ.get("TURNGATE_FIXTURES")
    candidates = [Path(asked)] if asked else [Path("fixtures"), Path(__file__).resolve().parents[3] / "fixtures"]
    return next((each for each in candidates if each.is_dir()), None)


def newest(engine: str) -> str | None:
    """Return the newest version of which there are recordings."""
    found = versions(engine)
    return found[-1] if found else None


def versions(engine: str, root: Path | None = None) -> list[str]:
    """Return every version of which there are recordings (in `root`, else where they are found), oldest first."""
    root = root or folder()
    if root is None or not (root / engine).is_dir():
        return []
    return sorted((each.name for each in (root / engine).iterdir() if Version.is_valid(each.name)), key=order)


def order(version: str) -> Version:
    """Return what versions are put in order by."""
    return Version.parse(version)
