"""Where the two releases come from: which versions are meant, whether they are published, and the release itself."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from turngate.contract import load
from turngate.errors import EnvironmentFailed
from turngate.files import default_cache
from turngate.process import Stop
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.releases import install
from turngate_probes.releases.cache import home_of, in_use
from turngate_probes.releases.published import Source, published, with_named
from turngate_probes.releases.selection import chosen
from turngate_probes.releases.targets import Release, Target, held


class Registry:
    """What the registry of one engine says, asked as seldom as can be."""

    def __init__(self, engine: str, interrupt: Interrupt) -> None:
        self._engine, self._interrupt = engine, interrupt
        self._published: Source | None = None

    def exact(self, target: Target) -> Target:
        """Replace `latest` by the version that it is now; EnvironmentFailed if the registry can't say."""
        if target.version != install.LATEST:
            return target
        return replace(target, version=chosen(install.LATEST, self._asked().versions)[0])

    def source(self, versions: Sequence[str]) -> Source:
        """Find where these versions come from; EnvironmentFailed if one is not published, or nobody can say so.

        The pinned one needs no registry, since its integrity is known.
        """
        contract, pinned = load.contract(self._engine).at(), install.pinned_version(self._engine)
        if contract.npm and shutil.which("npm") and set(versions) == {pinned}:
            promised = install.pinned_integrity(self._engine, contract.npm, str(pinned)) or ""
            return Source(contract, "npm", contract.npm.package, tuple(versions), {str(pinned): promised})
        listed = self._asked()
        with self._interrupt.covering() as stop:
            source = with_named(listed, versions, Path.cwd(), stop)
        there = source.integrity if source.registry == "npm" else source.versions
        for version in versions:
            if version not in there and version != pinned:
                near = ", ".join(install.nearest(version, list(source.versions)))
                hint = f"nearest: {near}" if near else "nothing of it is published"
                raise EnvironmentFailed(f"{source.package} has no version {version}", hint)
        return source

    def _asked(self) -> Source:
        if self._published is None:
            with self._interrupt.covering() as stop:
                self._published = published(self._engine, Path.cwd(), stop)
        return self._published


def source_of(release: Mapping[str, Any]) -> Source | None:
    """Return where a release of a report was installed from; None if it was not installed."""
    document, version = load.contract(release["engine"]).document, str(release["version"])
    place = document.data["published"].get(release["source"])
    if place is None:
        return None
    promised = str(release["note"] or "").rpartition(", ")[2]
    contract = load.contract(release["engine"]).at(release["version"])
    known = {version: promised} if promised.startswith("sha") else {}
    return Source(contract, release["source"], place["package"], (version,), known)


@contextmanager
def held_from(target: Target, source: Source | None, stop: Stop) -> Iterator[Release]:
    """Return a release, installed if need be, and keep it in place while the block runs."""
    if target.path or source is None:
        with held(target, lambda _: None, stop) as release:
            yield release
        return
    version = str(target.version)
    with in_use(home_of(target.engine, default_cache()) / source.folder(version)):
        installed = source.install(version, default_cache(), lambda _: None, stop)
        contract = load.contract(target.engine).at(version)
        yield Release(target.engine, version, installed.executable, source.registry, contract, "")
