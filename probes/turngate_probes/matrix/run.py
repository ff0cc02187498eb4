"""Probes many releases of one engine side by side, and keeps what came out of each as soon as it is known."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from turngate.contract.clauses import Reason
from turngate.errors import EnvironmentFailed
from turngate.files import default_cache
from turngate.process import Stop
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.resource_usage import ResourceUsage, enough_memory, waiting_for
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.journal.journal import Event, Journal, read
from turngate_probes.matrix.results import Plan, Totals, alone
from turngate_probes.probe import Probe, ProbeSettings
from turngate_probes.releases.cache import MARKER, Say
from turngate_probes.releases.cache_limit import CacheLimit
from turngate_probes.releases.registry import Registry
from turngate_probes.releases.source import Release, ReleaseSource, Target
from turngate_probes.report.build import bugs, build

AT_ONCE = 24  # releases under way: most of the time they wait for a slot, or for a later minute
PATIENCE = 1.0


class PatientSource(ReleaseSource):
    """Obtains releases one after the other where memory is short."""

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
    """The run of one plan. `failed` says why of each release that could not even leave a journal."""

    def __init__(
        self, plan: Plan, registry: Registry, folder: Path, settings: ProbeSettings, limit: int,
        listener: Callable[[Event], None], interrupt: Interrupt,
    ) -> None:  # fmt: skip
        """Keep results in `folder`, and the releases of the cache within `limit` bytes; tell `listener` of it."""
        self.plan, self.registry, self.folder = plan, registry, folder
        self.interrupt, self.failed = interrupt, dict[str, str]()
        self.limit = CacheLimit(default_cache(), limit, self.interrupt.wait)
        self._settings, self._listener = settings, listener
        self._source = PatientSource(registry, self.limit, interrupt)
        waiting = waiting_for(os.cpu_count() or 1)
        self._stage = CaseRunner.of(settings.sandboxes, settings.jobs, self.interrupt, waiting=waiting)
        self._telling = threading.Lock()

    def run(self) -> Totals:
        """Probe every release of the plan's shard that has no answer yet; EnvironmentFailed: no place for results."""
        with alone(self.folder, self.plan.engine):
            return self._run()

    def _run(self) -> Totals:
        started = time.monotonic()
        self.plan.write(self.folder)
        todo = [v for v in self.plan.mine if not self.plan.answered(self.folder, v).exists()]
        kept = len(self.plan.mine) - len(todo)
        self._tell({"event": "matrix.planned", "at": "", "releases": len(self.plan.mine), "kept": kept})
        # what is there already first: later on it might have to make room
        todo.sort(key=lambda version: not (self.registry.root(version) / MARKER).exists())
        with ResourceUsage(self.limit.used) as peaks, ThreadPoolExecutor(min(AT_ONCE, max(1, len(todo)))) as pool:
            cpu_seconds = sum(pool.map(self._one, todo))
        self.limit.trim()
        seconds = time.monotonic() - started
        totals = Totals(round(seconds, 3), round(cpu_seconds, 3), peaks.cache_bytes, peaks.memory_bytes)
        self.plan.write(self.folder, totals)
        return totals

    def _one(self, version: str) -> float:
        if self.interrupt.is_set():
            return 0.0
        part = self.plan.part(self.folder, version)
        try:
            journal = Journal(part, [self._tell])
            try:
                probe = Probe(self._settings, journal, self._stage, self._source)
                probe.run([Target(self.plan.engine, version)])
            finally:
                journal.close()
            return self._keep(part, version)
        except EnvironmentFailed as failed:
            self._lost(version, failed.what, failed.hint)
        except OSError as error:
            self._lost(version, f"it could not be probed: {error}", "make room on the disk, or mend what is named")
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)
        return 0.0

    def _keep(self, part: Path, version: str) -> float:
        """Keep what was asked to its end, for good if it was answered; gives the engine's CPU seconds."""
        report = build(read(part))
        release = report["releases"][0]
        if report["interrupted"]:
            return float(release["engine_seconds"])
        answered, failed = self.plan.answered(self.folder, version), self.plan.failed(self.folder, version)
        failed.unlink(missing_ok=True)
        part.replace(failed if release["verdict"] == "unanswered" or bugs(release) else answered)
        return float(release["engine_seconds"])

    def _lost(self, version: str, what: str, hint: str) -> None:
        self.failed[version] = what
        name = f"{self.plan.engine}@{version}"
        told = {"event": "release.failed", "at": "", "release": name, "reason": Reason.MACHINE.value}
        self._tell({**told, "what": what, "hint": hint})

    def _tell(self, event: Event) -> None:
        with self._telling:
            self._listener(event)
