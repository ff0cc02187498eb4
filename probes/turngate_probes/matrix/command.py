"""What was ordered on the command line: choosing releases, running the matrix or the search, reporting."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from turngate.contract import load
from turngate.errors import EnvironmentFailed, NotCoveredError
from turngate.files import default_cache
from turngate.process import Stop
from turngate_probes import report
from turngate_probes.harness.interrupt import CaseStoppedError, Interrupt, InterruptedCaseError, interrupting
from turngate_probes.harness.resource_usage import jobs_for, machine
from turngate_probes.journal.journal import Event
from turngate_probes.matrix.bisection import Bisection, ClauseAnswer, answer_of, describe, print_bisection
from turngate_probes.matrix.joined import joined
from turngate_probes.matrix.results import Plan, plans
from turngate_probes.matrix.run import Matrix
from turngate_probes.probe import ProbeSettings, sandboxes_path
from turngate_probes.releases.cache_limit import parse_size
from turngate_probes.releases.registry import Registry
from turngate_probes.releases.selection import chosen, known_clauses, parse_shard
from turngate_probes.releases.source import parse_target, published
from turngate_probes.report.build import INTERRUPTED_CODE, Report
from turngate_probes.report.output import write_json

Listener = Callable[[Event], None]


@dataclass(frozen=True, slots=True)
class MatrixCommand:
    """Which engine, how to probe it, where results go, and what the cache may take."""

    engine: str
    settings: ProbeSettings
    folder: Path
    limit: int

    @classmethod
    def of(
        cls, engine: str, *, results: Path | None, cache_limit: str, jobs: int | None,
        level: str | None = None, clauses: tuple[str, ...] = (), strict: bool = False,
    ) -> "MatrixCommand":  # fmt: skip
        """Read what was asked for; EnvironmentFailed says what is wrong with it. Without level: that of the clause."""
        target = parse_target(engine)
        if target.version or target.path:
            raise EnvironmentFailed(f"{engine!r} is more than an engine", "name versions by --versions, --good, --bad")
        level = level or _level_of(clauses)
        settings = ProbeSettings(
            level, jobs or jobs_for(os.cpu_count() or 1), sandboxes_path(None), keep=False, strict=strict,
            clauses=known_clauses(clauses, level),
        )  # fmt: skip
        return cls(target.engine, settings, (results or default_cache() / "matrix").absolute(), parse_size(cache_limit))

    def plan(self, registry: Registry, versions: Sequence[str], shard: tuple[int, int] = (1, 1)) -> Plan:
        """Plan these releases."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        return Plan.of(registry, versions, self.settings.level, self.settings.clauses, shard, at=at, machine=machine())

    def matrix(self, registry: Registry, plan: Plan, listener: Listener, interrupt: Interrupt) -> Matrix:
        """Make the run of a plan."""
        return Matrix(plan, registry, self.folder, self.settings, self.limit, listener, interrupt)


def choose(order: MatrixCommand, spec: str, stop: Stop | None = None) -> tuple[Registry, tuple[str, ...]]:
    """Ask what is published and choose of it; EnvironmentFailed if it can't be asked, or nothing is chosen."""
    registry = published(order.engine, stop)
    versions = chosen(spec, registry.versions)
    return registry.with_integrity(versions, stop), versions


def run_matrix(order: MatrixCommand, spec: str, shard: str, json_to: str | None, reports: Sequence[Path] = ()) -> int:
    """Probe what `spec` chooses and report on it; gives the exit code."""
    part = parse_shard(shard)
    console, interrupt = report.console_for(json_to), Interrupt()
    with interrupting(interrupt.set):
        try:
            with interrupt.covering() as stop:
                registry, versions = choose(order, spec, stop)
        except (CaseStoppedError, EnvironmentFailed):
            if interrupt.is_set():
                return INTERRUPTED_CODE
            raise
        plan = order.plan(registry, versions, part)
        if not plan.mine:
            raise EnvironmentFailed(f"shard {shard} of {len(versions)} releases is empty", "ask for fewer shards")
        with report.live(console) as listener:
            running = order.matrix(registry, plan, listener, interrupt)
            totals = running.run()
    found = joined(
        [replace(plan, totals=totals)], [order.folder], strict=order.settings.strict,
        interrupted=interrupt.is_set(), failed=running.failed,
    )  # fmt: skip
    return report.publish_report(found, console, order.folder, json_to, reports)


def merged(folders: Sequence[Path], *, strict: bool) -> Report:
    """Join what shards left in these folders; EnvironmentFailed if they don't fit together."""
    return joined([plan for folder in folders for plan in plans(folder)], folders, strict=strict, merging=True)


def run_bisection(order: MatrixCommand, good: str | None, bad: str | None, json_to: str | None) -> int:
    """Find where the newest result of the order's clause began and print it; return the exit code."""
    (clause,) = order.settings.clauses
    console, interrupt = report.console_for(json_to), Interrupt()
    with interrupting(interrupt.set), report.live(console) as listener:
        try:
            with interrupt.covering() as stop:
                registry = published(order.engine, stop)
            covered = [v for v in chosen("all", registry.versions) if _covers(order.engine, v)]
            # the newest release, leaps back, then halves
            listener({"event": "matrix.planned", "at": "", "releases": 2 * len(covered).bit_length(), "kept": 0})
            search = Bisection(covered, lambda version: _ask(order, registry, version, clause, interrupt, listener))
            change = search.search(good, bad)
        except (CaseStoppedError, EnvironmentFailed):
            if interrupt.is_set():
                return INTERRUPTED_CODE
            raise
    data = describe(order.engine, clause, search, change)
    if json_to is not None:
        write_json(data, json_to, schema="bisect-report")
    print_bisection(console, data)
    return 0 if change else 2


def _ask(
    order: MatrixCommand, registry: Registry, version: str, clause: str, interrupt: Interrupt, listener: Listener
) -> ClauseAnswer:
    plan = order.plan(registry, (version,))
    running = order.matrix(registry, plan, lambda e: None if e["event"] == "matrix.planned" else listener(e), interrupt)
    totals = running.run()
    if interrupt.is_set():
        raise InterruptedCaseError
    found = joined([replace(plan, totals=totals)], [order.folder], failed=running.failed)
    return answer_of(found["releases"][0], clause)


def _covers(engine: str, version: str) -> bool:
    try:
        load.contract(engine).at(version)
    except NotCoveredError:
        return False
    return True


def _level_of(clauses: Sequence[str]) -> str:
    static = {clause.id for clause in load.catalogue().at_level("static")}
    return "static" if set(clauses) <= static else "hermetic"
