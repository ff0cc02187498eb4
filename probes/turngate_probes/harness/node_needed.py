"""The Node.js that an executable's npm package asks for, which says why the executable may not start."""

import json
import re
from pathlib import Path

from turngate_probes.harness.resource_usage import node_version

_LARGEST = 1 << 20  # bytes of a package.json


def newer_node_needed(executable: Path) -> str | None:
    """Return the version that the executable's package asks for if the Node.js on PATH is older, such as 22.19.0.

    None also if there is no package or no Node.js, or if the package doesn't ask for a version with `>=`. Packages
    that ask for a newer version than they need are common, so a release may run all the same.
    """
    wanted, here = re.fullmatch(r"\s*>=\s*v?(\d+(?:\.\d+)*)\s*", _asked(executable)), node_version()
    if wanted is None or here is None or not (found := re.match(r"v(\d+(?:\.\d+)*)", here)):
        return None
    return wanted[1] if _numbers(found[1]) < _numbers(wanted[1]) else None


def _asked(executable: Path) -> str:
    """Return `engines.node` of the nearest package.json at or above the executable, which may be a link."""
    for folder in executable.resolve().parents:
        manifest = folder / "package.json"
        if not manifest.is_file():
            continue
        try:
            with manifest.open("rb") as file:
                data = json.loads(file.read(_LARGEST))
            return str(data["engines"]["node"])
        except (OSError, ValueError, LookupError, TypeError):
            return ""
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part[:9]) for part in version.split("."))
