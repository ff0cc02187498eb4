"""Installs clients by name into the cache, without running their install scripts."""

import subprocess
import sys
from pathlib import Path

from turngate.files import default_cache, locked


def from_npm(*packages: str) -> Path:
    """Return the folder whose node_modules has these packages (`name@version`), without engines."""
    folder = _folder(packages)
    with locked(folder):
        if not (folder / "package-lock.json").exists():
            options = ("--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund")
            subprocess.run(("npm", "install", *options, "--prefix", folder, *packages), check=True, capture_output=True)
    return folder


def from_pypi(*packages: str, without_dependencies: str) -> Path:
    """Return a folder for PYTHONPATH with these packages (`name==version`) and one without its dependencies."""
    folder = _folder((*packages, without_dependencies))
    with locked(folder):
        if not (folder / "installed").exists():
            pip = (sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--target", folder)
            subprocess.run((*pip, *packages), check=True, capture_output=True)
            subprocess.run((*pip, "--no-deps", without_dependencies), check=True, capture_output=True)
            (folder / "installed").touch()
    return folder


def _folder(packages: tuple[str, ...]) -> Path:
    folder = default_cache() / "clients" / "+".join(packages).replace("/", "-")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
