"""What was measured of released orchestrators, in docs/orchestrators.json."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from tests.conform.real import Orchestrator
from turngate.decoding import decode
from turngate.files import write_atomically
from turngate_probes.conform.conform_report import ConformReport, ScenarioResult

FAILED = (ScenarioResult.FAIL, ScenarioResult.EXCUSED, ScenarioResult.UNANSWERED)


class Breach(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule that an orchestrator broke in a scenario, and what was seen."""

    scenario: str
    rule: str
    seen: str


class Measured(Struct, frozen=True, forbid_unknown_fields=True):
    """An orchestrator as it was measured: its package, the engine's release, the day, and the number of scenarios."""

    name: str
    package: str
    engine: str
    release: str
    day: str
    passed: int
    failed: int
    skipped: int
    breaches: tuple[Breach, ...]


def measured(one: Orchestrator, report: ConformReport) -> Measured:
    """Return what the page says about an orchestrator."""
    results = [row.result for row in report.results]
    return Measured(
        one.name,
        one.package,
        one.engine,
        one.release,
        report.started_at[:10],
        results.count(ScenarioResult.PASS),
        sum(result in FAILED for result in results),
        results.count(ScenarioResult.SKIPPED),
        tuple(
            Breach(row.scenario, breach.rule, breach.excused or breach.detail)
            for row in report.results
            for breach in row.breaches
        ),
    )


def load(path: Path) -> tuple[Measured, ...]:
    """Read a file; a missing one has no rows."""
    return decode(path.read_bytes(), tuple[Measured, ...]) if path.exists() else ()


def merged(rows: Iterable[Measured], newer: Measured, names: Sequence[str]) -> tuple[Measured, ...]:
    """Return the rows with a newer one, in the order of their names; rows of other names are dropped."""
    by_name = {row.name: row for row in rows} | {newer.name: newer}
    return tuple(by_name[name] for name in names if name in by_name)


def save(path: Path, rows: tuple[Measured, ...]) -> None:
    """Write a file, one value per line, so that a diff shows what changed."""
    write_atomically(path, msgspec.json.format(msgspec.json.encode(rows), indent=1).decode() + "\n")
