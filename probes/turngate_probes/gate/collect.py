"""Gets the answers of both releases: kept ones of published releases, else by probing; then crosses them."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from turngate_probes.gate.cross_resume import cross_resume
from turngate_probes.gate.sources import located
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.journal.events import Event, MatrixPlanned, ProbeFinished, ProbeStarted
from turngate_probes.journal.journal import Journal, read
from turngate_probes.matrix.results import Plan
from turngate_probes.matrix.run import Matrix, MatrixSettings
from turngate_probes.probe import Probe, ProbeSettings
from turngate_probes.releases.registry import Registry
from turngate_probes.releases.source import Release, ReleaseSource, Target
from turngate_probes.report.build import build
from turngate_probes.report.gate_structs import Entry
from turngate_probes.report.structs import ProbeReport, ReleaseReport

Listener = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class ReleaseQuestion:
    """What is asked: may `new` take the place of `old`; `crossed` are the clauses asked of both on one home.

    `expected` are the entries of the baseline file named `baseline`.
    """

    old: Target
    new: Target
    settings: ProbeSettings
    crossed: tuple[str, ...]
    folder: Path
    limit: int
    expected: tuple[Entry, ...]
    baseline: str | None


@dataclass(frozen=True, slots=True)
class ReleaseAnswer:
    """A release of a report with all that its probe has seen, and the release itself (None: it can't be had)."""

    release: ReleaseReport
    events: list[Event]


@dataclass(frozen=True, slots=True)
class Collected:
    """Both answers, and the frame of their reports; `crossing` is None where the releases were not crossed."""

    old: ReleaseAnswer
    new: ReleaseAnswer
    crossing: ProbeReport | None
    frame: ProbeReport


class Collecting:
    """One run of a question."""

    def __init__(self, question: ReleaseQuestion, listener: Listener, interrupt: Interrupt) -> None:
        self.question, self.interrupt, self._listener = question, interrupt, listener
        self._registry: Registry | None = None
        self._telling, self._parts = threading.Lock(), 0

    def run(self) -> Collected:
        """Probe what has no answer yet, then cross both; EnvironmentFailed, CaseStoppedError: no registry, a stop.

        What is not published is told before anything is probed.
        """
        (old, new), self._registry = located((self.question.old, self.question.new), self.interrupt)
        versions = tuple(dict.fromkeys(str(each.version) for each in (old, new) if each.version))
        own = [(name, each) for name, each in (("old", old), ("new", new)) if each.path]
        self._parts = len(versions) + len(own) + bool(self.question.crossed)
        self._tell(MatrixPlanned(releases=self._parts, kept=0))
        with ThreadPoolExecutor(2, thread_name_prefix="gate") as pool:
            waiting = [pool.submit(self._probed, *each) for each in own]
            found = self._kept(self._registry, versions) if self._registry else {}
            found |= dict(each.result() for each in waiting)
        (_, before), (frame, after) = found[str(old)], found[str(new)]
        crossed = self._crossed(old, new) if self._can_cross((before, after)) else None
        return Collected(before, after, crossed, frame)

    def _kept(self, registry: Registry, versions: tuple[str, ...]) -> dict[str, tuple[ProbeReport, ReleaseAnswer]]:
        """Return the answers of published releases as a matrix does: what is known is not asked again."""
        asked = self.question
        settings = MatrixSettings(asked.settings, asked.folder, asked.limit)
        running = Matrix(registry, versions, settings, self._tell, self.interrupt)
        frame, plan = running.run(), running.plan
        return {
            str(Target(plan.engine, str(each.version))): (
                frame, ReleaseAnswer(each, _events(plan, asked.folder, str(each.version))),
            )
            for each in frame.releases
        }  # fmt: skip

    def _probed(self, name: str, target: Target) -> tuple[str, tuple[ProbeReport, ReleaseAnswer]]:
        """Probe an executable of one's own; nothing tells whether it is the one of an earlier answer."""
        report, events = self._journalled(name, self.question.settings, target, self._tell)
        return str(target), (report, ReleaseAnswer(report.releases[0], events))

    def _crossed(self, old: Target, new: Target) -> ProbeReport:
        def told(event: Event) -> None:
            # a part of its own: both releases were told to have ended
            named = not isinstance(event, ProbeStarted | ProbeFinished | MatrixPlanned)
            self._tell(structs.replace(event, release=f"{old} and {new} on one home") if named else event)

        with ExitStack() as holding:
            with self.interrupt.covering() as stop:
                source = ReleaseSource(self._registry)
                before, after = (holding.enter_context(source.held(each, lambda _: None, stop)) for each in (old, new))
            settings = replace(
                self.question.settings, level="gate", clauses=self.question.crossed, more=(cross_resume(before),)
            )
            report, _ = self._journalled("crossing", settings, after, told)
            return report

    def _can_cross(self, answers: Sequence[ReleaseAnswer]) -> bool:
        both = all(each.release.failed is None and each.release.executable for each in answers)
        return both and bool(self.question.crossed) and not self.interrupt.is_set()

    def _tell(self, event: Event) -> None:
        """Pass on an event; what a matrix plans is only a part of this."""
        if isinstance(event, MatrixPlanned):
            event = structs.replace(event, releases=self._parts, unit="parts")
        with self._telling:
            self._listener(event)

    def _journalled(
        self, name: str, settings: ProbeSettings, target: Target | Release, listener: Listener
    ) -> tuple[ProbeReport, list[Event]]:
        path = self.question.folder / f"gate-{name}-{os.getpid()}.ndjson"
        runner = CaseRunner.of(settings.sandboxes, settings.jobs, self.interrupt)
        try:
            with closing(Journal(path, [listener])) as journal:
                Probe(settings, journal, runner).run([target])
            events = list(read(path))
        finally:
            path.unlink(missing_ok=True)
        return build(events), events


def _events(plan: Plan, folder: Path, version: str) -> list[Event]:
    path = plan.answered(folder, version)
    return list(read(path)) if path.exists() else []
