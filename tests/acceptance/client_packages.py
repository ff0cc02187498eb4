"""Official clients from npm and PyPI, installed once into turngate's cache."""

import subprocess
import sys
from pathlib import Path

from turngate.files import default_cache, locked


def npm(package: str) -> Path:
    """Return the folder of an npm package, installed if it is missing; its install scripts don't run."""
    folder = _folder(package)
    with locked(folder):
        if not (folder / "installed").exists():
            command = ("npm", "install", "--silent", "--ignore-scripts", "--prefix", str(folder), package)
            subprocess.run(command, check=True)
            (folder / "installed").touch()
    return folder / "node_modules" / package


def python_with(package: str) -> Path:
    """Return a Python interpreter that has a package of PyPI, installed if it is missing."""
    folder = _folder(package)
    interpreter = folder / "venv/bin/python"
    with locked(folder):
        if not (folder / "installed").exists():
            subprocess.run((sys.executable, "-m", "venv", str(folder / "venv")), check=True)
            subprocess.run((str(interpreter), "-m", "pip", "install", "--quiet", package), check=True)
            (folder / "installed").touch()
    return interpreter


def _folder(package: str) -> Path:
    folder = default_cache() / "clients" / package.replace("/", "-").lstrip("@")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
