"""Judges engines that nothing can install from their recordings."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.compatibility import kept
from turngate.contract import load
from turngate.contract.clauses import Result
from turngate.contract.verdict import ClauseResult, capability, profile, verdict
from turngate_probes.clauses import judge_all
from turngate_probes.clauses.process import EVERYTHING
from turngate_probes.harness.cases import CASES
from turngate_probes.record import replay
from turngate_probes.releases import recorded_releases

FIXTURES = kept.ROOT / "fixtures"


@dataclass(frozen=True, slots=True)
class RecordedRelease:
    """A release as its recordings show it; `notable` are the clauses that did not pass."""

    engine: str
    version: str
    verdict: str
    profile: str
    notable: dict[str, dict[str, Any]]


def not_installable() -> Iterator[RecordedRelease]:
    """Yield each recorded release of each engine that is sealed, or whose contract names no package."""
    for engine in load.engine_names():
        described = load.contract(engine)
        if described.at().lifecycle.status == "sealed" or not described.document.data["published"]:
            for version in recorded_releases.releases(engine, [FIXTURES]):
                yield _judged(engine, version)


@cache
def _judged(engine: str, version: str) -> RecordedRelease:
    results: dict[str, ClauseResult] = {}
    seen = replay.replay(load.contract(engine).at(version), FIXTURES)
    judge_all(seen, results, ("static", "hermetic"), {case.name for case in CASES} | {EVERYTHING})
    judged = tuple(results.values())
    able = capability(judged)
    kind = profile(able).kind if able else "not tested"
    notable = {result.id: _told(result) for result in judged if result.result is not Result.PASS}
    return RecordedRelease(engine, version, verdict(judged, recordings_only=True).value, kind, notable)


def _told(result: ClauseResult) -> dict[str, Any]:
    detail = {"detail": result.detail} if result.result is Result.NOT_RUN else {}
    return {"result": result.result.value, **detail}
