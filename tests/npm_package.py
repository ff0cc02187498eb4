"""Packages of npm that tests need, in turngate's cache."""

import hashlib
import subprocess
import tempfile
from pathlib import Path

from turngate.files import default_cache


def npm_package(name: str, version: str, sha256: str) -> Path:
    """Return a package as npm packs it; it is downloaded once and its checksum verified."""
    kept = default_cache() / f"{name}-{version}.tgz"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            command = ("npm", "pack", "--silent", f"{name}@{version}")
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE)
            (packed,) = Path(folder).glob("*.tgz")
            assert hashlib.sha256(packed.read_bytes()).hexdigest() == sha256
            packed.replace(kept)
    return kept
