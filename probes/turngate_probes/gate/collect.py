"""Gets the results of both releases (saved ones of published releases, otherwise by probing), then cross-resumes."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

from msgspec import Struct, structs
from msgspec.structs import replace

from turngate_probes.clauses.gate import CASE
from turngate_probes.gate.hidden_options import hidden_options
from turngate_probes.harness.cases import Case
from turngate_probes.harness.driver import ASK, FINAL, EngineDriver, ask
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.observations import Turn
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.journal.events import Event, MatrixPlanned, ProbeFinished, ProbeStarted
from turngate_probes.journal.journal import Journal, read
from turngate_probes.matrix.results import ANSWERED
from turngate_probes.matrix.run import Listener, Matrix, MatrixSettings
from turngate_probes.probe import Probe
from turngate_probes.probe_settings import ProbeSettings
from turngate_probes.releases.pins import pinned_version
from turngate_probes.releases.registry import LATEST, Registry, RegistryName
from turngate_probes.releases.selection import chosen
from turngate_probes.releases.source import Release, ReleaseSource, default_registry, published
from turngate_probes.releases.target import Target
from turngate_probes.report.build import build
from turngate_probes.report.reports import Entry, ProbeReport, ReleaseReport
from turngate_probes.report.wording import OWN_PIN

CROSSED = ("upgrade.resume", "rollback.resume", "rollback.touched")
CROSSING_TURNS = 5


class ReleaseQuestion(Struct, frozen=True):
    """The question: can you upgrade from `old` to `new`? `crossed` are the clauses that test both in a shared HOME.

    `expected` are the entries of the baseline file named `baseline`. `is_own_pin`: nobody named `old`.
    """

    old: Target
    new: Target
    settings: MatrixSettings
    crossed: tuple[str, ...]
    expected: tuple[Entry, ...]
    baseline: str | None
    is_own_pin: bool = False


class ReleaseAnswer(Struct, frozen=True):
    """A release of a report, with all observations of its probe."""

    report: ProbeReport
    release: ReleaseReport
    events: list[Event]


class Collected(Struct, frozen=True):
    """The results of both releases; `crossing` is None if the releases were not cross-resumed.

    `hidden` are the options that the newer release accepts, although its help pages no longer show them; None: they
    could not be tried.
    """

    old: ReleaseAnswer
    new: ReleaseAnswer
    crossing: ProbeReport | None
    hidden: frozenset[str] | None = frozenset()


class Collecting:
    """One run of a gate."""

    def __init__(self, question: ReleaseQuestion, listener: Listener, interrupt: Interrupt) -> None:
        self.question, self.interrupt, self._listener = question, interrupt, listener
        self._registry: Registry | None = None
        self._telling, self._parts = threading.Lock(), 0

    def run(self) -> Collected:
        """Probe what has no result yet, then cross-resume; TurngateError: no registry, CaseStoppedError: a stop.

        Versions that are not published are rejected before anything is probed.
        """
        question = self.question
        (old, new), self._registry = located((question.old, question.new), question.settings.registry, self.interrupt)
        versions = tuple(dict.fromkeys(target.version for target in (old, new) if target.version))
        own = {target: name for name, target in (("old", old), ("new", new)) if target.path}
        self._parts = len(versions) + len(own) + bool(self.question.crossed)
        self._tell(MatrixPlanned(releases=self._parts, kept=0))
        with ThreadPoolExecutor(2, thread_name_prefix="gate") as pool:
            # an executable may have changed since an earlier result
            probe, tell = self.question.settings.probe, self._tell
            probing = {str(t): pool.submit(self._journalled, name, probe, t, tell) for t, name in own.items()}
            answers = self._kept(self._registry, versions) if self._registry else {}
            answers |= {name: answer.result() for name, answer in probing.items()}
        before, after = answers[str(old)], answers[str(new)]
        before, after = remarked(question, self._registry, before, after)
        both = all(answer.release.failed is None and answer.release.executable for answer in (before, after))
        cross = both and self.question.crossed and not self.interrupt.is_set()
        crossing = self._crossed(old, new) if cross else None
        return Collected(before, after, crossing, self._hidden(before, after, new) if both else frozenset())

    def _hidden(self, before: ReleaseAnswer, after: ReleaseAnswer, new: Target) -> frozenset[str] | None:
        with self.interrupt.scope() as stop, ReleaseSource(self._registry).held(new, lambda _: None, stop) as held:
            if held.executable is None or self.interrupt.is_set():
                return frozenset()
            return hidden_options(before.events, after.events, held.executable, stop)

    def _kept(self, registry: Registry, versions: tuple[str, ...]) -> dict[str, ReleaseAnswer]:
        """Return the results of published releases like a matrix, which reuses saved results."""
        settings = self.question.settings
        matrix = Matrix(registry, versions, settings, self._tell, self.interrupt)
        report, answers = matrix.run(), dict[str, ReleaseAnswer]()
        for release in report.releases:
            path = matrix.plan.journal(settings.folder, str(release.version), ANSWERED)
            events = list(read(path)) if path.exists() else []
            answers[str(Target(release.engine, release.version))] = ReleaseAnswer(report, release, events)
        return answers

    def _crossed(self, old: Target, new: Target) -> ProbeReport:
        def reported(event: Event) -> None:
            # a separate part, because both releases were reported as ended
            named = not isinstance(event, ProbeStarted | ProbeFinished | MatrixPlanned)
            self._tell(structs.replace(event, release=f"{old} and {new} in a shared HOME") if named else event)

        with ExitStack() as stack:
            with self.interrupt.scope() as stop:
                source = ReleaseSource(self._registry)
                held = (source.held(target, lambda _: None, stop) for target in (old, new))
                before, after = map(stack.enter_context, held)
            clauses, more = self.question.crossed, (cross_resume(before),)
            settings = replace(self.question.settings.probe, level="gate", clauses=clauses, more=more)
            return self._journalled("crossing", settings, after, reported).report

    def _tell(self, event: Event) -> None:
        """Pass on an event, except a matrix's plan, which is only a part of the gate."""
        if isinstance(event, MatrixPlanned):
            last = CROSSING_TURNS if self.question.crossed else 0
            event = structs.replace(event, releases=self._parts, unit="parts", last_turns=last)
        with self._telling:
            self._listener(event)

    def _journalled(
        self, name: str, settings: ProbeSettings, target: Target | Release, listener: Listener
    ) -> ReleaseAnswer:
        path = self.question.settings.folder / f"gate-{name}-{os.getpid()}.ndjson"
        runner = CaseRunner.of(settings.sandboxes, settings.jobs, self.interrupt)
        try:
            with closing(Journal(path, [listener])) as journal:
                Probe(settings, journal, runner, builds=True).run([target])
            events = list(read(path))
        finally:
            path.unlink(missing_ok=True)
        report = build(events)
        return ReleaseAnswer(report, report.releases[0], events)


def remarked(
    question: ReleaseQuestion, registry: Registry | None, before: ReleaseAnswer, after: ReleaseAnswer
) -> tuple[ReleaseAnswer, ReleaseAnswer]:
    """Add to the releases what qualifies how they were chosen."""
    if question.is_own_pin:
        before = _remarked(before, OWN_PIN)
    if registry and registry.staleness and question.new.version == LATEST:
        after = _remarked(after, registry.staleness)
    return before, after


def _remarked(answer: ReleaseAnswer, remark: str) -> ReleaseAnswer:
    release = answer.release
    return replace(answer, release=replace(release, note=f"{release.note or 'not tested'}; {remark}"))


def located(
    targets: tuple[Target, ...], name: RegistryName | None, interrupt: Interrupt
) -> tuple[tuple[Target, ...], Registry | None]:
    """Return targets of one engine with `latest` replaced by its version, and the registry that has these versions.

    TurngateError if one is not published, or the registry can't be reached. The pinned release needs no query,
    because its integrity is known; executables need no registry at all.
    """
    engine = targets[0].engine
    versions, pinned = {target.version for target in targets if target.version}, pinned_version(engine)
    if not versions:
        return targets, None
    default = default_registry(engine)
    if default and pinned and versions == {pinned} and name in (None, default.name):
        return targets, replace(default, versions=(pinned,), integrity={pinned: default.promised(pinned) or ""})
    with interrupt.scope() as stop:
        registry = published(engine, name, stop)
        newest = chosen(LATEST, registry.versions)[0] if LATEST in versions else None
        targets = tuple(replace(t, version=newest) if t.version == LATEST else t for t in targets)
        registry = registry.with_integrity([target.version for target in targets if target.version], stop)
    for target in targets:
        if target.version and target.version != pinned and not registry.has(target.version):
            raise registry.no_such_version(target.version)
    return targets, registry


def cross_resume(old: Release) -> Case:
    """Return the case in which the probed release shares a home with `old`.

    One session starts in the older release, continues in the newer one, and then in the older one again. Another one
    starts in the newer release and continues in the older one.
    """

    def play(newer: EngineDriver) -> None:
        assert old.executable is not None  # noqa: S101 - the gate asks for executables alone
        older = replace(newer, contract=old.contract, executable=old.executable)
        first = _start(older, "old-first")
        if first.session is not None:
            _resume(newer, "new-again", first, 2)
            _resume(older, "old-third", first, 3)
        _resume(older, "old-again", _start(newer, "new-first"), 2)

    return Case(CASE, play, CROSSING_TURNS, level="gate")


def _start(engine: EngineDriver, step: str) -> Turn:
    engine.sandbox.furnish(engine.contract.hermetic)
    return engine.start(step, ask(ASK))


def _resume(engine: EngineDriver, step: str, first: Turn, turn_index: int) -> Turn:
    engine.sandbox.furnish(engine.contract.hermetic)
    return engine.resume(step, first.session, ask(FINAL, turn_index=turn_index))
