"""Installs releases of engines from npm into a cache: integrity checked, without install scripts.

A release is installed beside its place and then renamed, under a file lock, so that a half-installed one is
never found and two installations of the same release do not disturb each other.
"""

import bisect
import fcntl
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

from semver import Version

from turngate.contract import Npm
from turngate.errors import EnvironmentFailed
from turngate.runtime import Stop
from turngate_probes.npm import NpmFailed, npm

MARKER = "turngate-installed"
LATEST = "latest"

Say = Callable[[str], None]
RunNpm = Callable[[tuple[str, ...], Path], str]


@dataclass(frozen=True, slots=True)
class Installed:
    """A release in the cache. `integrity` is the checksum of the engine's own package, as npm writes it."""

    engine: str
    version: str
    root: Path
    executable: Path
    integrity: str


def default_cache() -> Path:
    """Return the folder of installations: `TURNGATE_CACHE_DIR`, else `turngate` in the user's cache."""
    if chosen := os.environ.get("TURNGATE_CACHE_DIR"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "turngate"


def pinned_version(engine: str) -> str | None:
    """Return the version that `engine` is pinned at, or None when it has no pin."""
    manifest = files("turngate_probes") / "pins" / engine / "package.json"
    if not manifest.is_file():
        return None
    (version,) = json.loads(manifest.read_text())["dependencies"].values()
    return str(version)


def install(engine: str, source: Npm, version: str, cache: Path, *, say: Say, stop: Stop | None = None) -> Installed:
    """Return `engine` at `version` (exact, or "latest"), installed into `cache` unless it is there in order.

    `say` is told what takes time, `stop` ends it early.

    Raises:
        EnvironmentFailed: there is no npm, no registry, no such version, no room or no build for this
            platform, or the content is not what was promised.
    """
    home = cache.absolute() / "engines" / engine
    run_npm: RunNpm = partial(npm, stop=stop)
    try:
        home.mkdir(parents=True, exist_ok=True)
        exact = _exact_version(source, version, home, run_npm)
        with _alone(home / f".{exact}.lock", lambda: say(f"{engine} {exact}: another process is installing it")):
            return _completed(engine, source, exact, home) or _install(engine, source, exact, home, say, run_npm)
    except OSError as error:
        hint = "make room or mend its permissions, or set TURNGATE_CACHE_DIR to another folder"
        raise EnvironmentFailed(f"the cache cannot be written: {error}", hint) from error


def _exact_version(source: Npm, version: str, home: Path, run_npm: RunNpm) -> str:
    if version == LATEST:
        version = json.loads(run_npm(("view", source.package, "dist-tags.latest", "--json"), home))
    if not Version.is_valid(version):
        raise _no_such_version(source, version, home, run_npm)
    return version


def _completed(engine: str, source: Npm, version: str, home: Path) -> Installed | None:
    """Find a finished installation that has its executable and, where the release is pinned, its content."""
    root = home / version
    try:
        package, installed, integrity = (root / MARKER).read_text().split()
    except (OSError, ValueError):
        return None
    executable = _executable(root, source)
    promised = _pinned_integrity(engine, source, version) or integrity
    if not executable or (package, installed, integrity) != (source.package, version, promised):
        return None
    return Installed(engine, version, root, executable, integrity)


def _install(engine: str, source: Npm, version: str, home: Path, say: Say, run_npm: RunNpm) -> Installed:
    say(f"{engine} {version}: installing from npm")
    unfinished, root = home / f".{version}.partial", home / version
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    try:
        integrity = _fill(engine, source, version, unfinished, run_npm)
        if not _executable(unfinished, source):
            tried = ", ".join(source.executables).replace("{platform}", node_platform())
            what = f"{engine} {version} installs no executable for {node_platform()} (looked for {tried})"
            raise EnvironmentFailed(what, f"probe it on another platform, or name an executable: {engine}=/path/to/it")
        (unfinished / MARKER).write_text(f"{source.package} {version} {integrity}\n")
        shutil.rmtree(root, ignore_errors=True)
        unfinished.rename(root)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    executable = _executable(root, source)
    assert executable  # noqa: S101 - it was there before the rename
    return Installed(engine, version, root, executable, integrity)


def _fill(engine: str, source: Npm, version: str, folder: Path, run_npm: RunNpm) -> str:
    """Install the release into `folder`, from its pin where it has one, and return its integrity.

    Not by `npm ci`: it refuses a lock without the optional builds that a registry does not carry.
    """
    pin = files("turngate_probes") / "pins" / engine
    lock = folder / "package-lock.json"
    pinned: dict[str, Any] = {}
    if pinned_version(engine) == version:
        lock.write_text((pin / lock.name).read_text())
        pinned = json.loads(lock.read_text())["packages"]
    manifest = {"name": "turngate-release", "private": True, "dependencies": {source.package: version}}
    (folder / "package.json").write_text(json.dumps(manifest))
    try:
        run_npm(("install",), folder)
    except NpmFailed as failure:
        if failure.no_such_release():
            raise _no_such_version(source, version, folder, run_npm) from failure
        raise
    packages = json.loads(lock.read_text())["packages"]
    check_integrity(packages, pinned)
    return str(packages[f"node_modules/{source.package}"]["integrity"])


def check_integrity(packages: dict[str, Any], pinned: dict[str, Any]) -> None:
    """Raise EnvironmentFailed unless all `packages` of a lock carry a sha512, and that of the pin if pinned.

    What is bundled in another package carries no checksum of its own: that of the bundle covers it.
    """
    for place, entry in packages.items():
        name, integrity = place.removeprefix("node_modules/"), str(entry.get("integrity", ""))
        if place and not entry.get("inBundle") and not integrity.startswith("sha512-"):
            what = f"{name} has no sha512 integrity in npm's lock"
            raise EnvironmentFailed(what, "its content cannot be checked, so it is not installed")
        if place in pinned and integrity != str(pinned[place].get("integrity", "")):
            raise EnvironmentFailed(f"{name} is not the one that is pinned", "tell the maintainers of turngate")


def _pinned_integrity(engine: str, source: Npm, version: str) -> str | None:
    if pinned_version(engine) != version:
        return None
    lock = json.loads((files("turngate_probes") / "pins" / engine / "package-lock.json").read_text())
    return str(lock["packages"][f"node_modules/{source.package}"]["integrity"])


def _no_such_version(source: Npm, version: str, cwd: Path, run_npm: RunNpm) -> EnvironmentFailed:
    what = f"{source.package} has no version {version}"
    try:
        published = json.loads(run_npm(("view", source.package, "versions", "--json"), cwd))
    except NpmFailed as failure:
        if not failure.no_such_release():
            return failure
        return EnvironmentFailed(f"there is no package {source.package}", "the vendor may have withdrawn it")
    near = nearest(version, [published] if isinstance(published, str) else published)
    return EnvironmentFailed(what, f"nearest: {', '.join(near)}" if near else "nothing of it is published")


def nearest(version: str, published: list[str]) -> tuple[str, ...]:
    """Return the published releases just below and above `version`, the newest two if it is no version.

    Pre-releases are left out: builds for single platforms are published as such.
    """
    parsed = (Version.parse(each) for each in published if Version.is_valid(each))
    releases = sorted(each for each in parsed if not each.prerelease)
    try:
        place = bisect.bisect(releases, Version.parse(version, optional_minor_and_patch=True))
    except ValueError:
        place = len(releases) - 1
    return tuple(str(each) for each in releases[max(0, place - 1) : place + 1])


def node_platform() -> str:
    """Name this machine as Node does: `process.platform-process.arch`."""
    machine = platform.machine().lower()
    names = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}
    return f"{sys.platform}-{names.get(machine, machine)}"


def _executable(root: Path, source: Npm) -> Path | None:
    for each in source.executables:
        path = root / each.replace("{platform}", node_platform())
        if path.is_file() and os.access(path, os.X_OK):
            return path
    return None


@contextmanager
def _alone(lock: Path, tell_waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the file lock `lock` while the block runs."""
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell_waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
