"""The releases of an engine on PyPI, for machines without Node: only wheels, which run nothing."""

import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Self

from turngate import EnvironmentFailed, Stop
from turngate_probes.releases.cache import MAKE_ROOM
from turngate_probes.releases.registry import Registry, run_manager, without_hosts

SITE = "site"
REPORT = "pip-report.json"
_WHEELS = ("--quiet", "--no-deps", "--only-binary=:all:", "--no-compile", "--no-cache-dir")
_FLAGS = ("--disable-pip-version-check", "--no-input")

# pip's message, what is wrong, what to do about it
_NONE = (
    "there is no such release for this platform",
    "choose another version, or omit --registry pypi to use npm, which may have more",
)
_CAUSES = (
    # an index that lists versions was reached; pip also reports "no match" for an unreachable index
    (r"from versions: (?!none\))", *_NONE),
    (
        "Retrying|Connection|timed out|Temporary failure|Max retries|SSLError",
        "the package index cannot be reached",
        "check the network, and pip's proxy and index settings",
    ),
    ("No matching distribution|from versions:", *_NONE),
    ("HASHES? .*MATCH|hash mismatch", "the package's content does not match its checksum", "don't use the release"),
    ("No space left|Errno 28", "the disk is full", MAKE_ROOM),
    ("No module named pip", "this Python has no pip", "install pip, or omit --registry pypi to use npm"),
)


class PypiRegistry(Registry):
    """The wheels of an engine; the integrity is known only after the download."""

    name, title, folder_prefix = "pypi", "PyPI", "pypi-"

    def listed(self, stop: Stop | None) -> Self:
        """Query the versions that have a wheel for this platform."""
        printed = pip(("index", "versions", self.package), Path.cwd(), stop)
        line = re.search(r"^Available versions: (.+)$", printed, re.MULTILINE)
        newest_first = line[1].split(", ") if line else []
        return replace(self, versions=tuple(reversed(newest_first)))

    def exact(self, version: str, stop: Stop | None) -> str:  # noqa: ARG002 - as npm needs it
        """Return a listed version."""
        if version not in self.versions:
            raise self.no_such_version(version)
        return version

    def _fill(self, version: str, folder: Path, stop: Stop | None, *, lean: bool) -> str:  # noqa: ARG002 - always is
        pip(("install", *_WHEELS, "--target", SITE, "--report", REPORT, f"{self.package}=={version}"), folder, stop)
        report = folder / REPORT
        # pip has checked the wheel against this digest
        (installed,) = json.loads(report.read_text("utf-8"))["install"]
        report.unlink()
        return f"sha256-{installed['download_info']['archive_info']['hashes']['sha256']}"

    def _executable(self, root: Path) -> Path | None:
        (name,) = self.executables
        paths = [path for path in (root / SITE).rglob(name) if path.is_file() and os.access(path, os.X_OK)]
        return min(paths, key=lambda path: len(path.parts), default=None)


def pip(args: tuple[str, ...], cwd: Path, stop: Stop | None = None) -> str:
    """Run pip in `cwd`, with the user's settings for it, and return its standard output."""
    exit_code, stdout, stderr = run_manager("pip", (sys.executable, "-m", "pip", *args, *_FLAGS), args[0], cwd, stop)
    if exit_code == 0:
        return stdout
    for sign, what, hint in _CAUSES:
        if re.search(sign, stderr):
            raise EnvironmentFailed(f"{what} (pip {args[0]})", hint)
    lines = [line for line in stderr.splitlines() if line.startswith("ERROR")] or stderr.splitlines()
    what = f"pip {args[0]} exited with {exit_code}: {without_hosts(lines[:3])}"
    raise EnvironmentFailed(what, "see pip's message above")
