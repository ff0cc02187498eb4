"""Tries the options that a release no longer shows on a help page: only one that it refuses is gone."""

from collections.abc import Container, Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from tests.tools.history.with_release import with_release
from turngate import Stop
from turngate.history import HIDDEN, Change, History, Kind
from turngate_probes.gate.hidden_options import accepts
from turngate_probes.releases.cache import in_use
from turngate_probes.releases.registry import Registry


def with_hidden(known: History, tested: Container[str], registry: Registry, stop: Stop) -> History:
    """Return a history in which the options were tried that are said to be gone by what was tested now.

    One that is accepted is hidden.
    """
    gone = [
        change
        for change in known.changes()
        if change.kind == Kind.OPTION and change.after is None and (change.release in tested or change.since in tested)
    ]
    for version in dict.fromkeys(change.release for change in gone):
        if version not in known.published:
            continue
        with in_use(registry.root(version)):
            executable = registry.install(version, lambda _: None, stop).executable
            accepted = [*_accepted([change for change in gone if change.release == version], executable, stop)]
        if release := known.find(version):
            facts = {section: {**names} for section, names in release.facts.items()}
            for section, name in accepted:
                facts[section][name] = HIDDEN
            known = with_release(known, replace(release, facts=facts))
    return known


def _accepted(changes: Iterable[Change], executable: Path, stop: Stop) -> Iterator[tuple[str, str]]:
    """Yield the section and the name of each option that the executable accepts."""
    for change in changes:
        for page in change.where:
            if accepts(executable, page, change.subject, change.before or "", stop):
                yield f"{Kind.OPTION}/{page}", change.subject
