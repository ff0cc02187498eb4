"""The releases of an engine on PyPI, each in an environment of its own: only wheels, which run nothing.

pip runs with the user's own settings for it. A release is pinned by the checksums of its wheels for every platform, in
a `requirements.txt`.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from turngate import MachineError, Stop
from turngate_probes.harness.package_managers import module
from turngate_probes.releases.cache import MAKE_ROOM
from turngate_probes.releases.pins import REQUIREMENTS, pin_of, pinned_wheels
from turngate_probes.releases.registry import LATEST, Registry, run_manager, without_hosts
from turngate_probes.releases.selection import chosen, exact_version

ONLY_WHEELS = "--only-binary=:all:"
NO_SUCH_RELEASE = "there is no such release for this platform"
_FLAGS = ("--disable-pip-version-check", "--no-input")
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_OTHER_VERSION = "choose another version, or pass an executable: ENGINE=/path/to/executable"

# pip's message, what is wrong, what to do about it
_CAUSES = (
    (
        "require a different python version|requires a different Python",
        f"the release does not support Python {_PYTHON}, which turngate runs on",
        "choose another version, or install turngate with a version of Python that the release supports",
    ),
    # an index that lists versions was reached; pip also reports "no match" for an unreachable index
    (r"from versions: (?!none\))", NO_SUCH_RELEASE, _OTHER_VERSION),
    (
        "Retrying|Connection|timed out|Temporary failure|Max retries|SSLError",
        "the package index cannot be reached",
        "check the network, and pip's proxy and index settings",
    ),
    ("No matching distribution|from versions:", NO_SUCH_RELEASE, _OTHER_VERSION),
    ("DO NOT MATCH THE HASHES", "the package's content does not match its checksum", "don't use the release"),
    (
        "in --require-hashes mode|In --require-hashes mode",
        "the pin has no checksum of a package that this platform needs",
        "pin the release on this platform, or pass an executable: ENGINE=/path/to/executable",
    ),
    ("No space left|Errno 28", "the disk is full", MAKE_ROOM),
    ("No module named pip", "this Python has no pip", "install pip, or pass an executable: ENGINE=/path/to/executable"),
)
REPORT = "pip-report.json"
ENVIRONMENT = "venv"
_INSTALL = ("install", "--quiet", ONLY_WHEELS, "--no-compile", "--no-cache-dir", "--report", REPORT)


def pip(args: tuple[str, ...], stop: Stop | None = None, folder: Path | None = None, python: Path | None = None) -> str:
    """Run pip for the environment of `python` (None: turngate's), and return its standard output.

    `folder` has its files (None: it needs and leaves none). MachineError says why it failed.
    """
    into = ("--python", str(python)) if python else ()
    argv = module("pip", *into, *args, *_FLAGS)
    exit_code, stdout, stderr = run_manager("pip", argv, args[0], folder, stop)
    if exit_code == 0:
        return stdout
    for sign, what, hint in _CAUSES:
        if re.search(sign, stderr):
            raise MachineError(f"{what} (pip {args[0]})", hint)
    lines = [line for line in stderr.splitlines() if line.startswith("ERROR")] or stderr.splitlines()
    what = f"pip {args[0]} exited with {exit_code}: {without_hosts(lines[:3])}"
    raise MachineError(what, "see pip's message above")


class Wheel(Struct, frozen=True):
    """A wheel of a package: `digest` is its sha256, in hexadecimal."""

    package: str
    version: str
    file: str
    digest: str


def report(folder: Path) -> tuple[Wheel, ...]:
    """Read and remove the report that pip wrote in a folder; pip has checked each wheel against its digest."""
    file = folder / REPORT
    rows = json.loads(file.read_text("utf-8"))["install"]
    file.unlink()
    return tuple(
        Wheel(
            _canonical(row["metadata"]["name"]),
            row["metadata"]["version"],
            row["download_info"]["url"].rpartition("/")[2],
            row["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for row in rows
    )


def entry(wheels: Iterable[Wheel], package: str) -> Wheel:
    """Return the wheel of a package, whose name may be written in another way."""
    return next(wheel for wheel in wheels if wheel.package == _canonical(package))


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


class PypiRegistry(Registry, frozen=True):
    """The wheels of an engine; without a pin, the integrity is known only after the download."""

    name, title, folder_prefix = "pypi", "PyPI", "pypi-"

    def listed(self, stop: Stop | None) -> Self:
        """Query the versions, `1.2` as 1.2.0. Some may have no wheel for this platform, which installing them tells."""
        printed = pip(("index", "versions", self.package), stop)
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

    def _pinned(self) -> tuple[str | None, frozenset[str]]:
        version, digests = pinned_wheels(self.engine)
        return (exact_version(version) if version else None), digests

    def _fill(self, version: str, folder: Path, stop: Stop | None, *, lean: bool) -> str:  # noqa: ARG002 - always is
        """Install the release and its dependencies, from its pin if it has one, into a virtual environment."""
        environment, what = folder / ENVIRONMENT, [f"{self.package}=={version}"]
        argv = module("venv", "--without-pip", str(environment))
        exit_code, _, stderr = run_manager("python", argv, "-m venv", folder, stop)
        if exit_code:
            raise MachineError(f"python -m venv failed: {stderr.strip()[-300:]}", "install Python's module venv")
        if self._pinned()[0] == version:
            shutil.copy(pin_of(self.engine) / REQUIREMENTS, folder)
            what = ["--require-hashes", "-r", REQUIREMENTS]
        pip((*_INSTALL, *what), stop, folder, environment / "bin/python")
        installed = report(folder)
        # pip writes the path of the environment into its scripts, which is moved into place later
        for script in (environment / "bin").iterdir():
            if not script.is_symlink():
                moved = script.read_bytes().replace(os.fsencode(folder), os.fsencode(self.root(version)))
                script.write_bytes(moved)
        return f"sha256-{entry(installed, self.package).digest}"

    def _executable(self, root: Path) -> Path | None:
        """Return the script of the engine's name, else the shortest path of a program of that name in a wheel."""
        (name,), environment = self.executables, root / ENVIRONMENT
        paths = (environment / "bin" / name,), (environment / "lib").rglob(name)
        for candidates in paths:
            if programs := [path for path in candidates if path.is_file() and os.access(path, os.X_OK)]:
                return min(programs, key=lambda path: len(path.parts))
        return None
