"""Installs releases of engines from npm into the cache: integrity checked, without install scripts."""

import bisect
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from semver import Version

from turngate.contract.structs import Npm
from turngate.errors import EnvironmentFailed
from turngate.files import default_cache, overlay
from turngate.process import Stop
from turngate_probes.releases.cache import MARKER, Installed, Recipe, Say, home_of, place
from turngate_probes.releases.npm import NpmFailed, npm

__all__ = ["MARKER", "Installed", "Say", "default_cache", "install", "nearest", "node_platform", "pinned_version"]

LATEST = "latest"
PINS = Path(__file__).parent / "pins"
NPM_CACHE = ".npm-cache"

RunNpm = Callable[[tuple[str, ...], Path], str]


def pin_of(engine: str) -> Path:
    """Return the folder of an engine's pin: that of the overlay, where it has one, else ours."""
    own = overlay()
    folder = own / "pins" / engine if own else None
    return folder if folder and folder.is_dir() else PINS / engine


def pinned_version(engine: str) -> str | None:
    """Return the version that `engine` is pinned at, or None when it has no pin."""
    manifest = pin_of(engine) / "package.json"
    if not manifest.is_file():
        return None
    (version,) = json.loads(manifest.read_text())["dependencies"].values()
    return str(version)


def install(
    engine: str,
    source: Npm,
    version: str,
    cache: Path,
    *,
    say: Say,
    stop: Stop | None = None,
    promised: str | None = None,
    lean: bool = False,
) -> Installed:
    """Return `engine` at `version` (exact, or "latest"), installed into `cache` unless it is there in order.

    `say` is told what takes time, `stop` ends it early. `promised` is the integrity that was published, though that
    of a pin goes first; `lean` leaves nothing in npm's own cache.

    Raises:
        EnvironmentFailed: there is no npm, no registry, no such version, no room or no build for this
            platform, or the content is not what was promised.
    """
    home = home_of(engine, cache)
    run_npm: RunNpm = partial(npm, stop=stop)
    try:
        home.mkdir(parents=True, exist_ok=True)
        exact = _exact_version(source, version, home, run_npm)
        return place(recipe(engine, source, exact, run_npm, promised=promised, lean=lean), cache, say)
    except OSError as error:
        hint = "make room or mend its permissions, or set TURNGATE_CACHE_DIR to another folder"
        raise EnvironmentFailed(f"the cache cannot be written: {error}", hint) from error


def recipe(
    engine: str, source: Npm, version: str, run_npm: RunNpm = npm, *, promised: str | None = None, lean: bool = False
) -> Recipe:
    """Return how a release comes from npm into the cache."""

    def missing() -> EnvironmentFailed:
        tried = ", ".join(source.executables).replace("{platform}", node_platform())
        what = f"{engine} {version} installs no executable for {node_platform()} (looked for {tried})"
        return EnvironmentFailed(what, f"probe it on another platform, or name an executable: {engine}=/path/to/it")

    return Recipe(
        engine, version, source.package, "npm", folder=version,
        fill=lambda folder: _fill(engine, source, version, folder, run_npm, lean=lean),
        find=lambda root: _executable(root, source), missing=missing,
        promised=pinned_integrity(engine, source, version) or promised,
    )  # fmt: skip


def _exact_version(source: Npm, version: str, home: Path, run_npm: RunNpm) -> str:
    if version == LATEST:
        version = json.loads(run_npm(("view", source.package, "dist-tags.latest", "--json"), home))
    if not Version.is_valid(version):
        raise _no_such_version(source, version, home, run_npm)
    return version


def _fill(engine: str, source: Npm, version: str, folder: Path, run_npm: RunNpm, *, lean: bool) -> str:
    """Install the release into `folder`, from its pin where it has one, and return its integrity.

    Not by `npm ci`: it refuses a lock without the optional builds that a registry does not carry.
    """
    pin = pin_of(engine)
    lock = folder / "package-lock.json"
    pinned: dict[str, Any] = {}
    if pinned_version(engine) == version:
        lock.write_text((pin / lock.name).read_text())
        pinned = json.loads(lock.read_text())["packages"]
    manifest = {"name": "turngate-release", "private": True, "dependencies": {source.package: version}}
    (folder / "package.json").write_text(json.dumps(manifest))
    try:
        run_npm(("install", f"--cache={folder / NPM_CACHE}") if lean else ("install",), folder)
    except NpmFailed as failure:
        if failure.no_such_release():
            raise _no_such_version(source, version, folder, run_npm) from failure
        raise
    shutil.rmtree(folder / NPM_CACHE, ignore_errors=True)
    packages = json.loads(lock.read_text())["packages"]
    check_integrity(packages, pinned)
    return str(packages[f"node_modules/{source.package}"]["integrity"])


def check_integrity(packages: dict[str, Any], pinned: dict[str, Any]) -> None:
    """Raise EnvironmentFailed unless all `packages` of a lock carry a sha512, and that of the pin if pinned.

    What is bundled in another package carries no checksum of its own: that of the bundle covers it.
    """
    for where, entry in packages.items():
        name, integrity = where.removeprefix("node_modules/"), str(entry.get("integrity", ""))
        if where and not entry.get("inBundle") and not integrity.startswith("sha512-"):
            what = f"{name} has no sha512 integrity in npm's lock"
            raise EnvironmentFailed(what, "its content cannot be checked, so it is not installed")
        if where in pinned and integrity != str(pinned[where].get("integrity", "")):
            raise EnvironmentFailed(f"{name} is not the one that is pinned", "tell the maintainers of turngate")


def pinned_integrity(engine: str, source: Npm, version: str) -> str | None:
    """Return the integrity of the engine's own package in its pin; None if the version is not the pinned one."""
    if pinned_version(engine) != version:
        return None
    lock = json.loads((pin_of(engine) / "package-lock.json").read_text())
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
    if _lacks_build(root, source):
        return None
    for each in source.executables:
        path = root / each.replace("{platform}", node_platform())
        if path.is_file() and os.access(path, os.X_OK):
            return path
    return None


def _lacks_build(root: Path, source: Npm) -> bool:
    """Whether a build for this platform, which the package names, is missing: npm leaves out what is not there."""
    manifest = root / "node_modules" / source.package / "package.json"
    if not manifest.is_file():
        return False
    builds = json.loads(manifest.read_text("utf-8")).get("optionalDependencies", {})
    mine = [name for name in builds if name.endswith(f"-{node_platform()}")]
    return any(not (root / "node_modules" / name).is_dir() for name in mine)
