"""What is published of an engine, and how it gets into the cache: from npm, or from PyPI where there is no Node."""

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from turngate.contract import load
from turngate.contract.structs import EngineContract, Npm
from turngate.contract.versions import parse
from turngate.errors import EnvironmentFailed
from turngate.process import Stop
from turngate_probes.releases import install as releases
from turngate_probes.releases import pypi
from turngate_probes.releases.cache import Installed, Say
from turngate_probes.releases.npm import NpmFailed, npm

FIELDS = ("version", "dist.integrity", "--json")


@dataclass(frozen=True, slots=True)
class Source:
    """Where an engine's releases come from; `integrity` is what the registry tells before it is asked for content."""

    contract: EngineContract
    registry: Literal["npm", "pypi"]
    package: str
    versions: tuple[str, ...]
    integrity: Mapping[str, str] = field(default_factory=dict)

    def folder(self, version: str) -> str:
        """Name the release's folder in the cache."""
        return version if self.registry == "npm" else f"pypi-{version}"

    def identity(self, version: str) -> str:
        """Return what tells the release's content: its integrity, or where an index never replaces a file, its name."""
        return self.integrity.get(version) or f"{self.registry}:{self.package}=={version}"

    def install(self, version: str, cache: Path, say: Say, stop: Stop | None) -> Installed:
        """Return the release from the cache, installed if need be; EnvironmentFailed if it can't be had."""
        engine = self.contract.engine
        if self.registry == "npm" and self.contract.npm:
            promised = self.integrity.get(version)
            return releases.install(
                engine, self.contract.npm, version, cache, say=say, stop=stop, promised=promised, lean=True
            )
        if version not in self.versions:
            near = ", ".join(releases.nearest(version, list(self.versions)))
            raise EnvironmentFailed(f"{self.package} has no version {version}", f"nearest: {near}" if near else "")
        return pypi.install(engine, self.package, self.contract.executable, version, cache, say, stop)


def published(engine: str, cwd: Path, stop: Stop | None = None) -> Source:
    """Ask the registry what is published of an engine; EnvironmentFailed if it can't be asked, or there is none."""
    contract, places = load.contract(engine).at(), load.contract(engine).document.data["published"]
    wheels = places.get("pypi")
    if contract.npm and (shutil.which("npm") or not wheels):
        return _of_npm(contract, contract.npm, cwd, stop)
    if not wheels:
        note = contract.lifecycle.note or "name an executable: ENGINE=/path/to/it"
        raise EnvironmentFailed(f"no release of {engine} is published", note)
    found = pypi.published(wheels["package"], cwd, stop)
    return Source(contract, "pypi", wheels["package"], tuple(sorted(found, key=_order)))


def with_named(source: Source, versions: Iterable[str], cwd: Path, stop: Stop | None = None) -> Source:
    """Add the integrity of releases that the list leaves out, such as pre-releases, if they are published."""
    if source.registry != "npm":
        return source
    found = dict(source.integrity)
    for version in versions:
        if version in found:
            continue
        try:
            found |= _listed(npm(("view", f"{source.package}@{version}", *FIELDS), cwd, stop))
        except NpmFailed as failure:
            if not failure.no_such_release():
                raise
    return Source(source.contract, "npm", source.package, source.versions, found)


def _of_npm(contract: EngineContract, where: Npm, cwd: Path, stop: Stop | None) -> Source:
    # not `@*`, by which npm means the latest alone
    found = _listed(npm(("view", f"{where.package}@>=0.0.0", *FIELDS), cwd, stop))
    return Source(contract, "npm", where.package, tuple(found), found)


def _listed(printed: str) -> dict[str, str]:
    """Read version and integrity of each release: npm prints a list, or one object alone, or nothing."""
    data: Any = json.loads(printed) if printed.strip() else []
    return {each["version"]: each.get("dist.integrity", "") for each in ([data] if isinstance(data, dict) else data)}


def _order(version: str) -> tuple[bool, Any]:
    try:
        return (True, parse(version))
    except ValueError:
        return (False, 0)
