"""Probes many releases of one engine side by side, and keeps what came out of each as soon as it is known."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from turngate.contract import load
from turngate.contract.clauses import Reason
from turngate.errors import EnvironmentFailed
from turngate.process import Stop
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.resource_usage import ResourceUsage, enough_memory, waiting_for
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.journal.journal import Event, Journal, read
from turngate_probes.matrix.results import Plan, Totals, alone
from turngate_probes.probe import Probe, ProbeSettings
from turngate_probes.releases.cache import MARKER, Installed, Say, home_of, in_use
from turngate_probes.releases.cache_limit import CacheLimit
from turngate_probes.releases.published import Source
from turngate_probes.releases.targets import Release, Target
from turngate_probes.report.build import bugs, build

AT_ONCE = 24  # releases under way: most of the time they wait for a slot, or for a later minute
INSTALLING = 2
PATIENCE = 1.0


class Matrix:
    """The run of one plan. `failed` says why of each release that could not even leave a journal."""

    def __init__(
        self, plan: Plan, source: Source, folder: Path, settings: ProbeSettings, cache: Path, limit: int,
        listener: Callable[[Event], None], interrupt: Interrupt,
    ) -> None:  # fmt: skip
        """Keep results in `folder`, and the releases of `cache` within `limit` bytes; tell `listener` of it."""
        self.plan, self.source, self.folder, self.cache = plan, source, folder, cache
        self.interrupt, self.failed = interrupt, dict[str, str]()
        self.room = CacheLimit(cache, limit, self.interrupt.wait)
        self._settings, self._listener = settings, listener
        waiting = waiting_for(os.cpu_count() or 1)
        self._stage = CaseRunner.of(settings.sandboxes, settings.jobs, self.interrupt, waiting=waiting)
        self._telling, self._installing = threading.Lock(), threading.Semaphore(INSTALLING)
        self._running = 0

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
        todo.sort(key=lambda version: not (self._root(version) / MARKER).exists())
        with ResourceUsage(self.room.used) as peaks, ThreadPoolExecutor(min(AT_ONCE, max(1, len(todo)))) as pool:
            cpu_seconds = sum(pool.map(self._one, todo))
        self.room.trim()
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
                probe = Probe(self._settings, journal, self._stage, self._find, self.source.registry)
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

    @contextmanager
    def _find(self, target: Target, say: Say, stop: Stop) -> Iterator[Release]:
        version = str(target.version)
        contract = load.contract(target.engine).at(version)
        root = self._root(version)
        self.room.check_disk()
        with in_use(root), self.room.held(root):
            installed = self._installed(version, root, say, stop)
            with self._when_memory_allows(say):
                note = f"installed from {self.source.registry}, {installed.integrity}"
                yield Release(target.engine, version, installed.executable, self.source.registry, contract, note)

    def _installed(self, version: str, root: Path, say: Say, stop: Stop) -> Installed:
        if (root / MARKER).exists():
            return self.source.install(version, self.cache, say, stop)
        with self._installing, self.room.reserved(root, say):
            return self.source.install(version, self.cache, say, stop)

    @contextmanager
    def _when_memory_allows(self, say: Say) -> Iterator[None]:
        while self._running and not enough_memory():
            say("waiting for memory")
            self.interrupt.wait(PATIENCE)
        with self._telling:
            self._running += 1
        try:
            yield
        finally:
            with self._telling:
                self._running -= 1

    def _root(self, version: str) -> Path:
        return home_of(self.plan.engine, self.cache) / self.source.folder(version)

    def _tell(self, event: Event) -> None:
        with self._telling:
            self._listener(event)
