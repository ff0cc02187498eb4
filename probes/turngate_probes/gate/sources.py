"""Where the two releases come from: which versions are meant, and whether they are published."""

import shutil
from dataclasses import replace

from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.releases.npm import LATEST, pinned_version
from turngate_probes.releases.registry import Registry
from turngate_probes.releases.selection import chosen
from turngate_probes.releases.source import ReleaseSource, Target, published, registries
from turngate_probes.report.structs import ReleaseReport


def located(targets: tuple[Target, ...], interrupt: Interrupt) -> tuple[tuple[Target, ...], Registry | None]:
    """Return targets of one engine with `latest` replaced by its version, and the registry that has these versions.

    EnvironmentFailed if one is not published, or nobody can say so. The pinned one needs no answer of a registry,
    since its integrity is known; executables need none at all.
    """
    engine = targets[0].engine
    versions, pinned = {target.version for target in targets if target.version}, pinned_version(engine)
    if not versions:
        return targets, None
    npm = registries(engine).get("npm")
    if npm and pinned and versions == {pinned} and shutil.which("npm"):
        return targets, replace(npm, versions=(pinned,), integrity={pinned: npm.promised(pinned) or ""})
    with interrupt.covering() as stop:
        registry = published(engine, stop)
        newest = chosen(LATEST, registry.versions)[0] if LATEST in versions else None
        targets = tuple(replace(each, version=newest) if each.version == LATEST else each for each in targets)
        registry = registry.with_integrity([target.version for target in targets if target.version], stop)
    for target in targets:
        if target.version and target.version != pinned and not registry.has(target.version):
            raise registry.no_such_version(target.version)
    return targets, registry


def source_of(release: ReleaseReport) -> ReleaseSource:
    """Return the source from which a release of a report can be had again."""
    registry, version = registries(release.engine).get(release.source), str(release.version)
    if registry is None:
        return ReleaseSource()
    promised = (release.note or "").rpartition(", ")[2]
    known = {version: promised} if promised.startswith("sha") else {}
    return ReleaseSource(replace(registry, versions=(version,), integrity=known))
