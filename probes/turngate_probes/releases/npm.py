"""The releases of an engine on npm, and the pins: integrity checked, without install scripts."""

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from semver import Version

from turngate.errors import EnvironmentFailed
from turngate.files import overlay
from turngate.process import Stop
from turngate_probes.releases.package_managers import NpmFailed, npm
from turngate_probes.releases.registry import Registry, node_platform

LATEST = "latest"
PINS = Path(__file__).parent / "pins"
NPM_CACHE = ".npm-cache"
_FIELDS = ("version", "dist.integrity", "--json")


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


class NpmRegistry(Registry):
    """The npm package of an engine; the integrity of a pin goes before that of the registry."""

    name, title = "npm", "npm"

    def listed(self, stop: Stop | None) -> Self:
        """Ask for all releases and their integrity, without pre-releases."""
        # not `@*`, by which npm means the latest alone
        integrity = _integrity(npm(("view", f"{self.package}@>=0.0.0", *_FIELDS), Path.cwd(), stop))
        return replace(self, versions=tuple(integrity), integrity=integrity)

    def with_integrity(self, versions: Iterable[str], stop: Stop | None) -> Self:
        """Ask for the integrity of versions that the list leaves out."""
        integrity = dict(self.integrity)
        for version in versions:
            if version in integrity:
                continue
            try:
                integrity |= _integrity(npm(("view", f"{self.package}@{version}", *_FIELDS), Path.cwd(), stop))
            except NpmFailed as failure:
                if not failure.no_such_release():
                    raise
        return replace(self, integrity=integrity)

    def exact(self, version: str, stop: Stop | None) -> str:
        """Return a whole version, `latest` being the newest one that is published."""
        if version == LATEST:
            version = json.loads(npm(("view", self.package, "dist-tags.latest", "--json"), Path.cwd(), stop))
        if not Version.is_valid(version):
            raise self._none(version, stop)
        return version

    def promised(self, version: str) -> str | None:
        """Return the integrity of the pin, else what the registry says."""
        if (lock := self._pinned(version)) is None:
            return super().promised(version)
        return str(lock[f"node_modules/{self.package}"]["integrity"])

    def _pinned(self, version: str) -> dict[str, Any] | None:
        """Return the packages of the pin's lock; None if the version is not the pinned one."""
        if pinned_version(self.engine) != version:
            return None
        packages: dict[str, Any] = json.loads((pin_of(self.engine) / "package-lock.json").read_text())["packages"]
        return packages

    def _fill(self, version: str, folder: Path, stop: Stop | None, *, lean: bool) -> str:
        """Install the release, from its pin where it has one.

        Not by `npm ci`: it refuses a lock without the optional builds that a registry does not carry.
        """
        lock, pinned = folder / "package-lock.json", self._pinned(version)
        if pinned:
            lock.write_text((pin_of(self.engine) / lock.name).read_text())
        manifest = {"name": "turngate-release", "private": True, "dependencies": {self.package: version}}
        (folder / "package.json").write_text(json.dumps(manifest))
        try:
            npm(("install", f"--cache={folder / NPM_CACHE}") if lean else ("install",), folder, stop)
        except NpmFailed as failure:
            if failure.no_such_release():
                raise self._none(version, stop) from failure
            raise
        shutil.rmtree(folder / NPM_CACHE, ignore_errors=True)
        packages = json.loads(lock.read_text())["packages"]
        check_integrity(packages, pinned or {})
        return str(packages[f"node_modules/{self.package}"]["integrity"])

    def _executable(self, root: Path) -> Path | None:
        if self._lacks_build(root):
            return None
        paths = (root / candidate.replace("{platform}", node_platform()) for candidate in self.executables)
        return next((path for path in paths if path.is_file() and os.access(path, os.X_OK)), None)

    def _none(self, version: str, stop: Stop | None) -> EnvironmentFailed:
        """Explain that npm does not have a version, by asking which it has."""
        try:
            published = json.loads(npm(("view", self.package, "versions", "--json"), Path.cwd(), stop))
        except NpmFailed as failure:
            if not failure.no_such_release():
                return failure
            return EnvironmentFailed(f"there is no package {self.package}", "the vendor may have withdrawn it")
        versions = (published,) if isinstance(published, str) else tuple(published)
        return replace(self, versions=versions).no_such_version(version)

    def _lacks_build(self, root: Path) -> bool:
        """Whether a build for this platform that the package names is missing: npm skips what is not published."""
        manifest = root / "node_modules" / self.package / "package.json"
        if not manifest.is_file():
            return False
        builds = json.loads(manifest.read_text("utf-8")).get("optionalDependencies", {})
        mine = [name for name in builds if name.endswith(f"-{node_platform()}")]
        return any(not (root / "node_modules" / name).is_dir() for name in mine)


def _integrity(printed: str) -> dict[str, str]:
    """Read the integrity of each release: npm prints a list, or one object alone, or nothing."""
    data: Any = json.loads(printed) if printed.strip() else []
    rows = [data] if isinstance(data, dict) else data
    return {row["version"]: row.get("dist.integrity", "") for row in rows}
