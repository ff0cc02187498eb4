"""The releases of an engine on PyPI, each in an environment of its own: only wheels, which run nothing."""

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Self

from msgspec.structs import replace

from turngate import MachineError, Stop
from turngate_probes.releases import wheels
from turngate_probes.releases.pins import REQUIREMENTS, pin_of, pinned_wheels
from turngate_probes.releases.pip import ONLY_WHEELS, pip
from turngate_probes.releases.registry import LATEST, Registry, run_manager
from turngate_probes.releases.selection import chosen, exact_version

ENVIRONMENT = "venv"
_INSTALL = ("install", "--quiet", ONLY_WHEELS, "--no-compile", "--no-cache-dir", "--report", wheels.REPORT)


class PypiRegistry(Registry, frozen=True):
    """The wheels of an engine; without a pin, the integrity is known only after the download."""

    name, title, folder_prefix = "pypi", "PyPI", "pypi-"

    def listed(self, stop: Stop | None) -> Self:
        """Query the versions, `1.2` as 1.2.0. Some may have no wheel for this platform, which installing them tells."""
        printed = pip(("index", "versions", self.package), Path.cwd(), stop)
        line = re.search(r"^Available versions: (.+)$", printed, re.MULTILINE)
        newest_first = map(exact_version, line[1].split(", ") if line else ())
        return replace(self, versions=tuple(reversed([version for version in newest_first if version])))

    def exact(self, version: str, stop: Stop | None) -> str:
        """Return a listed version; the pinned one and installed ones need no query. `latest` is the newest one."""
        version = exact_version(version) or version
        if version == self._pinned()[0] or version in self.versions or self.is_installed(version):
            return version
        listed = self if self.versions else self.listed(stop)
        if version == LATEST:
            return chosen(LATEST, listed.versions)[0]
        if version not in listed.versions:
            raise listed.no_such_version(version)
        return version

    def promised(self, version: str) -> str | None:
        """Return the integrity that a gate has seen, or that of the pin if it has one wheel for all platforms."""
        pinned, digests = self._pinned()
        only = f"sha256-{min(digests)}" if pinned == version and len(digests) == 1 else None
        return super().promised(version) or only

    def agrees(self, version: str, integrity: str) -> bool:
        """Whether the content is the promised one, or one of the pin's wheels."""
        pinned, digests = self._pinned()
        known = pinned != version or not digests or integrity.removeprefix("sha256-") in digests
        return known and super().agrees(version, integrity)

    def pin(self, version: str, integrity: str, stop: Stop | None) -> dict[str, str]:
        """Resolve the release and its dependencies, with the checksums of their wheels for every platform."""
        with tempfile.TemporaryDirectory(prefix="turngate-pin-") as folder:
            text, own = wheels.locked(self.package, version, Path(folder), stop)
        if integrity and integrity.removeprefix("sha256-") not in own:
            raise self._changed(version)
        return {REQUIREMENTS: text}

    def _pinned(self) -> tuple[str | None, frozenset[str]]:
        version, digests = pinned_wheels(self.engine)
        return (exact_version(version) if version else None), digests

    def _fill(self, version: str, folder: Path, stop: Stop | None, *, lean: bool) -> str:  # noqa: ARG002 - always is
        """Install the release and its dependencies, from its pin if it has one, into a virtual environment."""
        environment, what = folder / ENVIRONMENT, [f"{self.package}=={version}"]
        argv = (sys.executable, "-m", "venv", "--without-pip", str(environment))
        exit_code, _, stderr = run_manager("python", argv, "-m venv", folder, stop)
        if exit_code:
            raise MachineError(f"python -m venv failed: {stderr.strip()[-300:]}", "install Python's module venv")
        if self._pinned()[0] == version:
            shutil.copy(pin_of(self.engine) / REQUIREMENTS, folder)
            what = ["--require-hashes", "-r", REQUIREMENTS]
        pip((*_INSTALL, *what), folder, stop, environment / "bin/python")
        installed = wheels.report(folder)
        # pip writes the path of the environment into its scripts, which is moved into place later
        for script in (environment / "bin").iterdir():
            if not script.is_symlink():
                moved = script.read_bytes().replace(os.fsencode(folder), os.fsencode(self.root(version)))
                script.write_bytes(moved)
        return f"sha256-{wheels.entry(installed, self.package).digest}"

    def _executable(self, root: Path) -> Path | None:
        """Return the script of the engine's name, else the shortest path of a program of that name in a wheel."""
        (name,), environment = self.executables, root / ENVIRONMENT
        paths = (environment / "bin" / name,), (environment / "lib").rglob(name)
        for candidates in paths:
            if programs := [path for path in candidates if path.is_file() and os.access(path, os.X_OK)]:
                return min(programs, key=lambda path: len(path.parts))
        return None
