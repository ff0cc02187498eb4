"""The pinned releases: a `package.json` with its lock for npm, a `requirements.txt` with checksums for PyPI."""

import json
import re
from pathlib import Path

from turngate.files import overlay

PINS = Path(__file__).parent / "pins"
MANIFEST, LOCK, REQUIREMENTS = "package.json", "package-lock.json", "requirements.txt"


def pin_of(engine: str) -> Path:
    """Return the folder of an engine's pin: in the overlay if it has one, else the bundled one."""
    own = overlay()
    folder = own / "pins" / engine if own else None
    return folder if folder and folder.is_dir() else PINS / engine


def pinned_version(engine: str) -> str | None:
    """Return the version that `engine` is pinned at, or None if it has no pin."""
    folder = pin_of(engine)
    if (manifest := folder / MANIFEST).is_file():
        (version,) = json.loads(manifest.read_text("utf-8"))["dependencies"].values()
        return str(version)
    return pinned_wheels(engine)[0]


def pinned_wheels(engine: str) -> tuple[str | None, frozenset[str]]:
    """Return the version of a pin for PyPI and the sha256 of its wheels; None if there is no such pin.

    The first requirement is the engine's own package.
    """
    file = pin_of(engine) / REQUIREMENTS
    lines = re.sub(r"\\\n", "", file.read_text("utf-8")).splitlines() if file.is_file() else []
    for line in lines:
        if pin := re.match(r"[A-Za-z0-9._-]+==(\S+)", line):
            return pin[1], frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", line))
    return None, frozenset()
