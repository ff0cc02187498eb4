"""Where probes and servers of one user keep what can be had again."""

import os
from pathlib import Path


def default_cache() -> Path:
    """Return the folder: `TURNGATE_CACHE_DIR`, else `turngate` in the user's cache."""
    if chosen := os.environ.get("TURNGATE_CACHE_DIR"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "turngate"
