"""The commands `matrix` and `bisect`: choosing releases, probing them, reporting."""

from collections.abc import Sequence
from pathlib import Path

from turngate import EnvironmentFailed, Stop
from turngate.contract import load
from turngate.contract.verdict import FailOn
from turngate.process.sessions import adopting_orphans
from turngate_probes.harness.interrupt import InterruptedCaseError, interruptible
from turngate_probes.journal.events import MatrixPlanned
from turngate_probes.matrix.bisection import Bisection, ClauseAnswer, answer_of, describe, print_bisection
from turngate_probes.matrix.results import joined, plans
from turngate_probes.matrix.run import Listener, Matrix, MatrixSettings
from turngate_probes.releases.registries import published
from turngate_probes.releases.registry import Registry, RegistryName
from turngate_probes.releases.selection import chosen, parse_shard
from turngate_probes.releases.target import parse_target
from turngate_probes.report.output import Output
from turngate_probes.report.progress import live
from turngate_probes.report.publish import publish, write_reports
from turngate_probes.report.structs import ProbeReport


def engine_of(text: str) -> str:
    """Read the name of an engine; EnvironmentFailed if it is something else, such as a release."""
    target = parse_target(text)
    if target.version or target.path:
        raise EnvironmentFailed(f"{text!r} is not just an engine", "pass versions with --versions, --good or --bad")
    return target.engine


def choose(
    engine: str, spec: str, name: RegistryName | None, stop: Stop | None = None
) -> tuple[Registry, tuple[str, ...]]:
    """Choose from the releases in a registry; EnvironmentFailed if it can't be reached, or nothing is chosen."""
    registry = published(engine, name, stop)
    versions = chosen(spec, registry.versions)
    return registry.with_integrity(versions, stop), versions


def run_matrix(engine: str, settings: MatrixSettings, spec: str, shard: str, output: Output) -> int:
    """Probe what `spec` chooses and report on it; return the exit code."""
    part = parse_shard(shard)
    with adopting_orphans(), interruptible() as interrupt:
        with interrupt.covering() as stop:
            registry, versions = choose(engine, spec, settings.registry, stop)
        if len(versions) < part[0]:
            raise EnvironmentFailed(f"shard {shard} of {len(versions)} releases is empty", "use fewer shards")
        with live(output.progress, interrupt) as listener:
            answers = Matrix(registry, versions, settings, listener, interrupt, part).run()
    return publish(answers, output, settings.folder)


def merged(folders: Sequence[Path], *, fail_on: FailOn) -> ProbeReport:
    """Merge the results of shards in these folders; EnvironmentFailed if they don't fit together."""
    return joined([plan for folder in folders for plan in plans(folder)], folders, fail_on=fail_on, merging=True)


def run_bisection(
    engine: str, settings: MatrixSettings, clause: str, good: str | None, bad: str | None, output: Output
) -> int:
    """Find where the newest result of a clause began and print it; return the exit code."""
    with adopting_orphans(), interruptible() as interrupt, live(output.progress, interrupt) as listener:

        def ask(version: str) -> ClauseAnswer:
            answers = Matrix(registry, (version,), settings, _unplanned(listener), interrupt).run()
            if interrupt.is_set():
                raise InterruptedCaseError
            return answer_of(answers.releases[0], clause)

        with interrupt.covering() as stop:
            registry = published(engine, settings.registry, stop)
        covered = [version for version in chosen("all", registry.versions) if load.covering(engine, version)]
        # the newest release, steps back, then halves
        listener(MatrixPlanned(releases=2 * len(covered).bit_length(), kept=0))
        search = Bisection(covered, ask)
        change = search.search(good, bad)
    outcome = describe(engine, clause, search, change)
    write_reports(outcome, output)
    print_bisection(output, outcome)
    return 0 if change else 2


def _unplanned(listener: Listener) -> Listener:
    """Pass on every event except a matrix's count of releases, which a search reports once."""
    return lambda event: None if isinstance(event, MatrixPlanned) else listener(event)
