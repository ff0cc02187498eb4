"""Installs clients by name into the cache, without running their install scripts."""

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from turngate.files import default_cache, locked


def from_npm(*packages: str) -> Path:
    """Return the folder of installed packages that has these (`name@version`), without engines."""
    options = ("--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund")
    folder = default_cache() / "clients" / "+".join(packages).replace("/", "-")
    _install(folder, ("npm", "install", *options, "--prefix", folder, *packages))
    return folder / "node_modules"


def from_pypi(*packages: str, without_dependencies: Iterable[str] = ()) -> Path:
    """Return a folder for PYTHONPATH with these packages (`name==version`) and some without their dependencies."""
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--target")
    folder = default_cache() / "clients" / "+".join((*packages, *without_dependencies))
    alone = ((*pip, folder, "--no-deps", package) for package in without_dependencies)
    _install(folder, (*pip, folder, *packages), *alone)
    return folder


def _install(folder: Path, *commands: tuple[str | Path, ...]) -> None:
    """Run commands that fill a folder, unless they have."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        if not (folder / "installed").exists():
            for command in commands:
                subprocess.run(command, check=True, capture_output=True)
            (folder / "installed").touch()
