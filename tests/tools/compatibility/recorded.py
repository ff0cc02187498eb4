"""Judges engines that nothing can install from their recordings."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from turngate.contract import load
from turngate.contract.clauses import Result
from turngate.contract.verdict import ClauseResult, capability, profile, verdict
from turngate.history import KnownRelease, KnownResult
from turngate_probes.clauses import judge_all
from turngate_probes.clauses.process import EVERYTHING
from turngate_probes.harness.cases import CASES
from turngate_probes.record import replay
from turngate_probes.releases import recorded_releases
from turngate_probes.report.build import recorded_set

FIXTURES = Path(__file__).parents[3] / "fixtures"


def installable(engine: str) -> bool:
    """Return whether turngate can install an engine: its contract names a package that the vendor still publishes."""
    described = load.contract(engine)
    return described.at().lifecycle.status != "sealed" and bool(described.document.data["published"])


def releases(engine: str) -> Iterator[KnownRelease]:
    """Yield each recorded release of an engine, as far as its recordings show it."""
    for version in recorded_releases.releases(engine, [FIXTURES]):
        yield _judged(engine, version)


@cache
def _judged(engine: str, version: str) -> KnownRelease:
    results: dict[str, ClauseResult] = {}
    seen = replay.replay(load.contract(engine).at(version), FIXTURES)
    judge_all(seen, results, ("static", "hermetic"), {case.name for case in CASES} | {EVERYTHING})
    able = capability(tuple(results.values()))
    return KnownRelease(
        version=version,
        verdict=verdict(tuple(results.values()), recordings_only=True),
        clause_set=recorded_set(results.values()),
        profile=profile(able).kind if able else None,
        clauses={name: _known(result) for name, result in results.items()},
    )


def _known(result: ClauseResult) -> KnownResult:
    return KnownResult(result.result, detail=result.detail if result.result is Result.NOT_RUN else "")
