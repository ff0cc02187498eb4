"""Fills the history of an engine: tests the releases that lack results, newest first, and saves each at once."""

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console

from tests.tools.history.digest import known_release
from tests.tools.history.hidden import with_hidden
from tests.tools.history.type_file import with_types
from tests.tools.history.with_release import with_release
from tests.tools.history.write import write
from turngate import MachineError, NotFoundError, history
from turngate.contract import load
from turngate.contract.verdict import Verdict, weighed
from turngate.contract.versions import parse
from turngate.history import LISTED, OF_MODEL, STUB, History, Kind, KnownRelease
from turngate.process.sessions import adopting_orphans
from turngate_probes.clauses.checks import LEVELS
from turngate_probes.harness.interrupt import Interrupt, interruptible
from turngate_probes.harness.resource_usage import Machine, machine
from turngate_probes.journal.events import Event, ReleaseFinished
from turngate_probes.journal.journal import read
from turngate_probes.matrix.results import ANSWERED, FAILED
from turngate_probes.matrix.run import Listener, Matrix, MatrixSettings
from turngate_probes.releases.npm import npm
from turngate_probes.releases.registry import Registry
from turngate_probes.releases.source import published
from turngate_probes.report.progress import live

HISTORIES = Path(history.__file__).with_name("histories")


def fill(engine: str, settings: MatrixSettings, *, days: int, versions: tuple[str, ...] = ()) -> bool:
    """Test the named versions, or else what is missing; return whether an interrupt has left anything.

    Missing are the stable releases of the last `days` days that lack the result of a selected clause, or of any. A
    newer clause can be selected and added so, without the others.
    """
    with adopting_orphans(), interruptible() as interrupt, live(Console(stderr=True), interrupt) as listener:
        with interrupt.scope() as stop:
            registry = published(engine, settings.registry, stop)
        known = refreshed(engine, registry)
        if absent := [version for version in versions if version not in known.published]:
            raise NotFoundError(f"the registry has no {engine} {', '.join(absent)}", "name stable releases that it has")
        left = [*versions] or missing(known, recent(known, days), settings.probe.clauses)
        if left:
            known = test(known, registry.with_integrity(left, None), left, settings, listener, interrupt)
            if not interrupt.is_set():
                with interrupt.scope() as stop:
                    save(with_types(with_hidden(known, left, registry, stop), left, stop))
        return interrupt.is_set()


def add(engine: str, folder: Path) -> int:
    """Add the saved results of a matrix of this engine; return how many there are."""
    known = refreshed(engine, published(engine))
    # the newest comes last, since it replaces what it shows, too
    journals = sorted(folder.glob(f"{engine}@*{ANSWERED}"), key=lambda path: path.stat().st_mtime_ns)
    for journal in journals:
        known = with_journal(known, journal)
    save(known)
    return len(journals)


def refreshed(engine: str, registry: Registry) -> History:
    """Return the history as saved, with the releases that the registry has now."""
    dates = _dates(registry)
    listed = {version: dates.get(version) for version in sorted(registry.versions, key=parse)}
    if engine not in history.engines():
        return History(engine=engine, machine=_words(machine()), published=listed, releases=())
    known = history.read(HISTORIES / f"{engine}.jsonl")
    # one that the registry doesn't have may have been named by mistake
    return replace(
        known, published=listed, releases=tuple(r for r in known.releases if r.tested or r.version in listed)
    )


def recent(known: History, days: int) -> tuple[str, ...]:
    """Return the releases of the last days, newest first; those whose date is unknown are left out."""
    since = f"{datetime.now(UTC) - timedelta(days=days):%Y-%m-%d}"
    return tuple(version for version, date in reversed([*known.published.items()]) if date and date >= since)


def missing(known: History, wanted: Iterable[str], clauses: tuple[str, ...]) -> list[str]:
    """Return the releases, in the given order, that lack the result of one of the clauses (none: of any clause)."""
    needed = {*(clauses or (clause.id for clause in load.catalogue().at_level(*LEVELS["hermetic"])))}
    return [version for version in wanted if _lacks(known.find(version), needed, whole=not clauses)]


def _lacks(release: KnownRelease | None, needed: set[str], *, whole: bool) -> bool:
    if release is None or (whole and not release.measured):
        return True
    # one that could not be installed has no clauses at all, and may be installable today
    return not needed <= release.clauses.keys()


def test(
    known: History,
    registry: Registry,
    versions: list[str],
    settings: MatrixSettings,
    listener: Listener,
    interrupt: Interrupt,
) -> History:
    """Test releases, and save the history whenever one of them is done; return it."""
    left = [*versions]

    def add_results() -> None:
        nonlocal known
        for version in [*left]:
            journals = (matrix.plan.journal(settings.folder, version, suffix) for suffix in (ANSWERED, FAILED))
            if journal := next((path for path in journals if path.exists()), None):
                known = with_journal(known, journal)
                left.remove(version)
        save(known)

    def follow(event: Event) -> None:
        listener(event)
        # its journal gets its name later, so this adds what was done before
        if isinstance(event, ReleaseFinished):
            add_results()

    matrix = Matrix(registry, tuple(versions), settings, follow, interrupt)
    matrix.run()
    add_results()
    return known


def with_journal(known: History, journal: Path) -> History:
    """Return a history with the release of a journal; results of selected clauses are added to the others."""
    new = known_release(read(journal))
    before = known.find(new.version)
    if new.verdict is Verdict.UNANSWERED and before and before.tested:
        return known  # a machine that lacks something says nothing about what another one has shown
    if new.verdict is None and before:
        facts, model = _both(before, new)
        new = _with_long(replace(before, clauses={**before.clauses, **new.clauses}, facts=facts, model=model))
    return with_release(known, new)


def _with_long(release: KnownRelease) -> KnownRelease:
    """Return a release with the verdict of level long, once the clauses about long sessions have been added to it."""
    of_set = load.catalogue().of_set(release.clause_set)
    long = {clause.id for clause in of_set.at_level("long")}
    if not (release.tested and long and long <= release.clauses.keys()):
        return release
    results = ((of_set[name].severity, known.result) for name, known in release.clauses.items() if name in of_set)
    return replace(release, level="long", verdict=weighed(results))


def _both(before: KnownRelease, new: KnownRelease) -> tuple[Mapping[str, Mapping[str, str]], str]:
    """Return the facts of a release with those of selected clauses, and their model.

    What a release does under another model is not compared. What it does under the one that it takes by itself replaces
    what it does under the stand-in.
    """
    if new.model == before.model:
        return {**before.facts, **new.facts}, before.model
    kinds = {name: name.partition("/")[0] for name in (*before.facts, *new.facts)}
    if before.model == STUB and Kind.DEFAULT_MODEL in kinds.values():
        kept = {name: facts for name, facts in before.facts.items() if kinds[name] not in OF_MODEL}
        return {**kept, **new.facts}, new.model
    return {**before.facts, **{name: facts for name, facts in new.facts.items() if kinds[name] in LISTED}}, before.model


def save(known: History) -> None:
    """Write a history."""
    try:
        write(known, HISTORIES / f"{known.engine}.jsonl")
    except OSError as failed:
        raise MachineError(f"can't write the history of {known.engine}: {failed}", "free disk space") from failed


def _dates(registry: Registry) -> Mapping[str, str]:
    """Return the day on which each version was published, as far as the registry tells."""
    if registry.name != "npm":
        return {}
    times = json.loads(npm(("view", registry.package, "time", "--json")))
    return {version: str(time)[:10] for version, time in times.items()}


def _words(on: Machine) -> str:
    node = f", Node.js {on.node.removeprefix('v')}" if on.node else ""
    return f"{on.system} {on.arch}{node}"


def lines(known: History, days: int) -> Iterator[str]:
    """Say how complete a history is."""
    wanted = recent(known, days)
    left = missing(known, wanted, ())
    yield f"{known.engine}: {len(wanted) - len(left)} of {len(wanted)} releases of the last {days} days"
    yield f"{sum(release.cpu_seconds for release in known.releases) / 3600:.1f} CPU hours"
