"""Resolves a package to wheels, and writes their checksums for every platform as a `requirements.txt`."""

import json
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct

from turngate import MachineError, Stop
from turngate_probes.releases.pip import NO_SUCH_RELEASE, ONLY_WHEELS, pip

REPORT = "pip-report.json"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
ARCHITECTURES = ("x86_64", "aarch64")
NEWEST_GLIBC = 42
MACS = ("macosx_15_0_arm64", "macosx_15_0_x86_64")
_RESOLVE = ("install", "--quiet", "--dry-run", "--ignore-installed", ONLY_WHEELS, "--report", REPORT)
_ALL = "none-any.whl"


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


def locked(package: str, version: str, folder: Path, stop: Stop | None) -> tuple[str, frozenset[str]]:
    """Return a `requirements.txt` that pins a release and its dependencies, and the digests of its own wheels.

    The dependencies are those of this platform. The wheels of every platform and Python that has them all are
    included. `folder` must be empty. MachineError: it can't be resolved, or the index can't be reached.
    """
    pip((*_RESOLVE, f"{package}=={version}"), folder, stop)
    resolved = report(folder)
    own = entry(resolved, package)
    special = [f"{wheel.package}=={wheel.version}" for wheel in resolved if not wheel.file.endswith(_ALL)]

    def elsewhere(number: int, flags: tuple[str, ...]) -> tuple[Wheel, ...]:
        aside = folder / str(number)
        aside.mkdir()
        try:
            pip((*_RESOLVE, "--no-deps", "--target", "unused", *flags, *special), aside, stop)
        except MachineError as failed:
            if failed.what.startswith(NO_SUCH_RELEASE):
                return ()
            raise
        return report(aside)

    with ThreadPoolExecutor(4, thread_name_prefix="pip") as pool:
        others = list(pool.map(elsewhere, *zip(*enumerate(_platforms()), strict=True))) if special else []
    wheels = {*resolved, *(wheel for platform in others for wheel in platform)}
    packages = sorted(resolved, key=lambda wheel: (wheel is not own, wheel.package))
    digests = {wheel.package: sorted({w.digest for w in wheels if w.package == wheel.package}) for wheel in packages}
    lines = [
        " \\\n    ".join([f"{wheel.package}=={wheel.version}", *(f"--hash=sha256:{d}" for d in digests[wheel.package])])
        for wheel in packages
    ]
    return "\n".join(lines) + "\n", frozenset(digests[own.package])


def _platforms() -> Iterable[tuple[str, ...]]:
    """Return pip's flags for each platform and Python."""
    glibcs = [f"manylinux_2_{minor}" for minor in range(NEWEST_GLIBC, 4, -1)] + ["manylinux2014"]
    linux = ([f"{glibc}_{architecture}" for glibc in glibcs] for architecture in ARCHITECTURES)
    for tags in (*linux, *([mac] for mac in MACS)):
        for python in PYTHONS:
            yield ("--python-version", python, "--implementation", "cp", *(f"--platform={tag}" for tag in tags))


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
