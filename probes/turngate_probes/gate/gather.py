"""Gets the answers of both releases: kept ones of published releases, else by probing; then crosses them."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from turngate import load
from turngate.errors import EnvironmentFailed
from turngate.runtime import Stop
from turngate.runtime.cache import default_cache
from turngate_probes import releases
from turngate_probes.cache import home_of, in_use
from turngate_probes.gate.crossing import crossing
from turngate_probes.interrupt import Interrupt
from turngate_probes.journal import Event, Journal, read
from turngate_probes.machine import machine
from turngate_probes.matrix.joined import joined
from turngate_probes.matrix.published import Source, published, with_named
from turngate_probes.matrix.results import Plan
from turngate_probes.matrix.run import Matrix
from turngate_probes.play import Stage
from turngate_probes.probe import Probe, Settings
from turngate_probes.report.build import Report, build
from turngate_probes.selection import chosen
from turngate_probes.targets import Release, Target, held

Listener = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: may `new` take the place of `old`; `crossed` are the clauses asked of both on one home."""

    old: Target
    new: Target
    settings: Settings
    crossed: tuple[str, ...]
    folder: Path
    limit: int


@dataclass(frozen=True, slots=True)
class Answer:
    """A release of a report with all that its probe has seen, and the release itself (None: it can't be had)."""

    release: Report
    events: list[Event]


@dataclass(frozen=True, slots=True)
class Gathered:
    """Both answers, and the frame of their reports; `crossing` is None where the releases were not crossed."""

    old: Answer
    new: Answer
    crossing: Report | None
    frame: Report


class Gathering:
    """One run of a question."""

    def __init__(self, question: Question, listener: Listener, interrupt: Interrupt) -> None:
        self.question, self.interrupt, self._listener = question, interrupt, listener
        self._source: Source | None = None

    def run(self) -> Gathered:
        """Probe what has no answer yet, then cross both; EnvironmentFailed, CaseStoppedError: no registry, a stop."""
        old, new = self.question.old, self._exact(self.question.new)
        listed = [target for target in (old, new) if target.version]
        with ThreadPoolExecutor(2, thread_name_prefix="gate") as pool:
            own = [(name, each) for name, each in (("old", old), ("new", new)) if each.path]
            waiting = [pool.submit(self._probed, *each) for each in own]
            found = self._kept(listed)
            found |= dict(each.result() for each in waiting)
        (_, before), (frame, after) = found[str(old)], found[str(new)]
        crossed = self._crossed(old, new) if self._can_cross((before, after)) else None
        return Gathered(before, after, crossed, frame)

    def _exact(self, target: Target) -> Target:
        """Replace `latest` by the version that it is now."""
        if target.version != releases.LATEST:
            return target
        with self.interrupt.covering() as stop:
            self._source = published(target.engine, Path.cwd(), stop)
        return replace(target, version=chosen(releases.LATEST, self._source.versions)[0])

    def _kept(self, targets: Sequence[Target]) -> dict[str, tuple[Report, Answer]]:
        """Give the answers of published releases as a matrix does: what is known is not asked again."""
        if not targets:
            return {}
        versions = tuple(dict.fromkeys(str(each.version) for each in targets))
        self._source = source = self._source_of(targets[0].engine, versions)
        at, asked = datetime.now(UTC).isoformat(timespec="milliseconds"), self.question
        plan = Plan.of(source, versions, asked.settings.level, asked.settings.clauses, at=at, machine=machine())
        running = Matrix(
            plan, source, asked.folder, asked.settings, default_cache(), asked.limit, self._listener, self.interrupt
        )
        plan = replace(plan, totals=running.run())
        frame = joined([plan], [asked.folder], interrupted=self.interrupt.is_set(), failed=running.failed)
        by_version = {each["version"]: each for each in frame["releases"]}
        return {
            str(each): (frame, Answer(by_version[each.version], _events(plan, asked.folder, str(each.version))))
            for each in targets
        }

    def _source_of(self, engine: str, versions: Sequence[str]) -> Source:
        """Find where releases come from; the pinned one alone can be had without asking the registry."""
        contract, pinned = load.contract(engine).at(), releases.pinned_version(engine)
        if contract.npm and set(versions) == {pinned}:
            promised = releases.pinned_integrity(engine, contract.npm, str(pinned)) or ""
            return Source(contract, "npm", contract.npm.package, tuple(versions), {str(pinned): promised})
        with self.interrupt.covering() as stop:
            source = self._source or published(engine, Path.cwd(), stop)
            return with_named(source, versions, Path.cwd(), stop)

    def _probed(self, name: str, target: Target) -> tuple[str, tuple[Report, Answer]]:
        """Probe an executable of one's own; nothing tells whether it is the one of an earlier answer."""
        report, events = self._journalled(name, self.question.settings, held, target, self._listener)
        return str(target), (report, Answer(report["releases"][0], events))

    def _crossed(self, old: Target, new: Target) -> Report:
        with ExitStack() as holding:
            with self.interrupt.covering() as stop:
                before, after = (holding.enter_context(self._held(each, stop)) for each in (old, new))
            settings = replace(
                self.question.settings, level="gate", clauses=self.question.crossed, more=(crossing(before),)
            )
            report, _ = self._journalled("crossing", settings, lambda *_: nullcontext(after), new, self._quietly)
            return report

    def _can_cross(self, answers: Sequence[Answer]) -> bool:
        both = all(each.release["failed"] is None and each.release["executable"] for each in answers)
        return both and bool(self.question.crossed) and not self.interrupt.is_set()

    def _quietly(self, event: Event) -> None:
        """Pass on what was found, but not the beginning and the end of a release, which were told before."""
        if not event["event"].startswith("release."):
            self._listener(event)

    def _journalled(
        self, name: str, settings: Settings, find: Any, target: Target, listener: Listener
    ) -> tuple[Report, list[Event]]:
        path = self.question.folder / f"gate-{name}-{os.getpid()}.ndjson"
        stage = Stage.of(settings.sandboxes, settings.jobs, self.interrupt)
        journal = Journal(path, [listener])
        try:
            Probe(settings, journal, stage, find).run([target])
            journal.close()
            events = list(read(path))
        finally:
            journal.close()
            path.unlink(missing_ok=True)
        return build(events), events

    @contextmanager
    def _held(self, target: Target, stop: Stop) -> Iterator[Release]:
        """Keep a release in place while the block runs."""
        if target.path or self._source is None:
            with held(target, lambda _: None, stop) as release:
                yield release
            return
        version, source = str(target.version), self._source
        with in_use(home_of(target.engine, default_cache()) / source.folder(version)):
            installed = source.install(version, default_cache(), lambda _: None, stop)
            contract = load.contract(target.engine).at(version)
            yield Release(target.engine, version, installed.executable, source.registry, contract, "")


def default_old(engine: str) -> Target:
    """Give the pinned release; EnvironmentFailed if there is none."""
    pinned = releases.pinned_version(engine)
    if pinned is None:
        raise EnvironmentFailed(f"{engine} is not pinned", f"name the older release: --from {engine}@VERSION")
    return Target(engine, pinned)


def _events(plan: Plan, folder: Path, version: str) -> list[Event]:
    path = plan.answered(folder, version)
    return list(read(path)) if path.exists() else []
