"""Probes many releases of one engine in parallel, and saves each result as soon as it is known."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from msgspec import Struct, structs

from turngate import MachineError, Stop, UsageError
from turngate.contract.clauses import PASSING, Level, Reason
from turngate.contract.verdict import FailOn, Verdict
from turngate.files import default_cache
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.resource_usage import ResourceUsage, enough_memory, jobs_for
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.journal.events import Event, MatrixPlanned, ReleaseFailed
from turngate_probes.journal.journal import Journal, read
from turngate_probes.matrix.results import ANSWERED, FAILED, PART, MatrixPlan, Totals, alone, joined
from turngate_probes.probe import Probe
from turngate_probes.probe_settings import ProbeSettings, sandboxes_path
from turngate_probes.releases.cache import MARKER, CacheLimit, Say, parse_size
from turngate_probes.releases.registry import Registry, RegistryName
from turngate_probes.releases.source import Release, ReleaseSource
from turngate_probes.releases.target import Target
from turngate_probes.report.build import bugs, build, standing
from turngate_probes.report.reports import ProbeReport

AT_ONCE = 24  # parallel releases: most of the time they wait for a slot, or for a later minute
PATIENCE = 1.0

Listener = Callable[[Event], None]


class MatrixSettings(Struct, frozen=True):
    """How to probe, the folder of results, the cache limit in bytes, and the registry (None: the engine's default)."""

    probe: ProbeSettings
    folder: Path
    limit: int
    registry: RegistryName | None = None


def matrix_settings(
    level: Level,
    clauses: tuple[str, ...],
    *,
    results: Path | None,
    cache_limit: str,
    jobs: int | None,
    registry: RegistryName | None = None,
    fail_on: FailOn = FailOn.BROKEN,
) -> MatrixSettings:
    """Read the options; UsageError if the limit is not a size."""
    jobs = jobs or jobs_for(os.cpu_count() or 1)
    settings = ProbeSettings(level, jobs, sandboxes_path(None), fail_on=fail_on, clauses=clauses)
    folder = (results or default_cache() / "matrix").absolute()
    return MatrixSettings(settings, folder, parse_size(cache_limit), registry)


class PatientSource(ReleaseSource):
    """Provides releases, one after the other if memory is short."""

    def __init__(self, registry: Registry, limit: CacheLimit, interrupt: Interrupt) -> None:
        super().__init__(registry, limit)
        self._interrupt, self._lock, self._running = interrupt, threading.Lock(), 0

    @contextmanager
    def held(self, target: Target, say: Say, stop: Stop | None = None) -> Iterator[Release]:
        """Install a release, then wait until another one may run."""
        with super().held(target, say, stop) as release:
            while self._running and not enough_memory():
                say("waiting for memory")
                self._interrupt.wait(PATIENCE)
            with self._lock:
                self._running += 1
            try:
                yield release
            finally:
                with self._lock:
                    self._running -= 1


class Matrix:
    """The probe of many versions of a registry, or of one shard of them."""

    def __init__(
        self,
        registry: Registry,
        versions: tuple[str, ...],
        settings: MatrixSettings,
        listener: Listener,
        interrupt: Interrupt,
        shard: tuple[int, int] = (1, 1),
    ) -> None:
        """Plan the matrix; `listener` gets every event."""
        self.plan = MatrixPlan.of(registry, versions, settings.probe.level, settings.probe.clauses, shard)
        self._registry, self._settings, self._folder = registry, settings.probe, settings.folder
        self._interrupt, self._listener, self._failed = interrupt, listener, dict[str, str]()
        self._limit = CacheLimit(default_cache(), settings.limit, interrupt.wait)
        self._source = PatientSource(registry, self._limit, interrupt)
        self._runner = CaseRunner.of(settings.probe.sandboxes, settings.probe.jobs, interrupt)
        self._telling = threading.Lock()

    def run(self) -> ProbeReport:
        """Probe every release of the shard that has no result yet, and report on the whole shard.

        MachineError if results can't be saved.
        """
        with alone(self._folder, self.plan.engine):
            plan = self._run()
        fail_on, interrupted = self._settings.fail_on, self._interrupt.is_set()
        return joined([plan], [self._folder], fail_on=fail_on, interrupted=interrupted, failed=self._failed)

    def _run(self) -> MatrixPlan:
        started = time.monotonic()
        self.plan.write(self._folder)
        todo = [v for v in self.plan.mine if not self.plan.journal(self._folder, v, ANSWERED).exists()]
        kept = len(self.plan.mine) - len(todo)
        self._tell(MatrixPlanned(releases=len(self.plan.mine), kept=kept))
        # cached releases first: later they might be evicted
        todo.sort(key=lambda version: not (self._registry.root(version) / MARKER).exists())
        with ResourceUsage(self._limit.used) as usage, ThreadPoolExecutor(min(AT_ONCE, max(1, len(todo)))) as pool:
            cpu_seconds = sum(pool.map(self._one, todo))
        self._limit.trim()
        seconds = time.monotonic() - started
        totals = Totals(round(seconds, 3), round(cpu_seconds, 3), usage.cache_bytes, usage.memory_bytes)
        plan = structs.replace(self.plan, totals=totals)
        plan.write(self._folder)
        return plan

    def _one(self, version: str) -> float:
        if self._interrupt.is_set():
            return 0.0
        part = self.plan.journal(self._folder, version, PART)
        try:
            with closing(Journal(part, [self._tell])) as journal:
                Probe(self._settings, journal, self._runner, self._source).run([Target(self.plan.engine, version)])
            return self._keep(part, version)
        except (MachineError, UsageError) as failed:
            self._lost(version, failed.what, failed.hint)
        except OSError as error:
            self._lost(version, f"it could not be probed: {error}", "free disk space, or fix the named problem")
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)
        return 0.0

    def _keep(self, part: Path, version: str) -> float:
        """Save a completed probe, permanently if it has a result; return the engine's CPU seconds."""
        report = build(read(part))
        release = report.releases[0]
        if report.interrupted:
            return release.engine_seconds
        self.plan.journal(self._folder, version, FAILED).unlink(missing_ok=True)
        is_lacking = any(clause.reason in PASSING for clause in release.clauses)
        is_open = standing(release) is Verdict.UNANSWERED or is_lacking or bugs(release)
        suffix = FAILED if is_open else ANSWERED
        part.replace(self.plan.journal(self._folder, version, suffix))
        return release.engine_seconds

    def _lost(self, version: str, what: str, hint: str) -> None:
        self._failed[version] = what
        name = f"{self.plan.engine}@{version}"
        self._tell(ReleaseFailed(release=name, reason=Reason.MACHINE, what=what, hint=hint))

    def _tell(self, event: Event) -> None:
        with self._telling:
            self._listener(event)
