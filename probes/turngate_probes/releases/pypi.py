"""The releases of an engine on PyPI, for where there is no Node: wheels alone, which run nothing."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from turngate.contract.versions import parse
from turngate.process import Stop
from turngate_probes.releases.package_managers import pip
from turngate_probes.releases.registry import Registry

SITE = "site"
REPORT = "pip-report.json"
_WHEELS = ("--quiet", "--no-deps", "--only-binary=:all:", "--no-compile", "--no-cache-dir")


class PypiRegistry(Registry):
    """The wheels of an engine; its integrity is known only once a wheel is there."""

    name, title, folder_prefix = "pypi", "PyPI", "pypi-"

    def listed(self, stop: Stop | None) -> Self:
        """Ask for the versions that have a wheel for this platform."""
        printed = pip(("index", "versions", self.package), Path.cwd(), stop)
        line = re.search(r"^Available versions: (.+)$", printed, re.MULTILINE)
        return replace(self, versions=tuple(sorted(line[1].split(", ") if line else (), key=_order)))

    def exact(self, version: str, stop: Stop | None) -> str:  # noqa: ARG002 - as npm needs it
        """Return a version that was listed."""
        if version not in self.versions:
            raise self.no_such_version(version)
        return version

    def _fill(self, version: str, folder: Path, stop: Stop | None, *, lean: bool) -> str:  # noqa: ARG002 - always is
        pip(("install", *_WHEELS, "--target", SITE, "--report", REPORT, f"{self.package}=={version}"), folder, stop)
        report = folder / REPORT
        # pip has held the wheel against this digest
        (installed,) = json.loads(report.read_text("utf-8"))["install"]
        report.unlink()
        return f"sha256-{installed['download_info']['archive_info']['hashes']['sha256']}"

    def _executable(self, root: Path) -> Path | None:
        (name,) = self.executables
        paths = [path for path in (root / SITE).rglob(name) if path.is_file() and os.access(path, os.X_OK)]
        return min(paths, key=lambda path: len(path.parts), default=None)


def _order(version: str) -> tuple[bool, Any]:
    try:
        return (True, parse(version))
    except ValueError:
        return (False, 0)
