"""Print the section of CHANGELOG.md about one version: `python .github/release_notes.py 0.2.0`."""

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"


def notes(changelog: str, version: str) -> str:
    """Return the text below the heading of a version; ValueError if there is no such heading, or nothing below it."""
    section = re.search(
        rf"^## \[?{re.escape(version)}\]?(?: [^\n]*)?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL
    )
    text = section[1].strip() if section else ""
    if not text:
        raise ValueError(
            f"CHANGELOG.md says nothing about {version}: move the entries of [Unreleased] below '## [{version}]'"
        )
    return text


if __name__ == "__main__":
    try:
        print(notes(CHANGELOG.read_text("utf-8"), sys.argv[1]))
    except (ValueError, IndexError) as error:
        sys.exit(str(error))
