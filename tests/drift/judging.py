"""Applies a drift to its base and judges the result with the real checks."""

from dataclasses import dataclass
from functools import cache

from tests.drift.drifts import Drift
from tests.drift.staged import play, play_sticky
from tests.drift.transform import drifted
from turngate.contract import load
from turngate.contract.clauses import Result
from turngate.contract.verdict import ClauseResult
from turngate_probes.clauses import judge_all
from turngate_probes.clauses.process import EVERYTHING
from turngate_probes.harness.cases import CASES
from turngate_probes.harness.observations import Observations
from turngate_probes.record import replay
from turngate_probes.releases import recorded_releases

LEVELS = ("static", "hermetic", "long")


@dataclass(frozen=True, slots=True)
class Judged:
    """The results of a drift, by clause id."""

    drift: Drift
    results: dict[str, ClauseResult]

    @property
    def caught(self) -> bool:
        """Whether the clause that the drift names failed."""
        return self.results[self.drift.caught_by].result is Result.FAIL

    def __str__(self) -> str:
        """Return the result of the named clause, and the clauses that failed instead."""
        named = self.results[self.drift.caught_by]
        others = [f"{failure.id} ({failure.detail})" for failure in failures(self.results)]
        return f"{self.drift.name}: {named.id} is {named.result}: {named.detail}; failed: " + (
            ", ".join(others) or "nothing"
        )


def judge_drift(drift: Drift) -> Judged:
    """Apply a drift and judge it."""
    if drift.recordings:
        return Judged(drift, judge(drifted(base(drift.recordings), drift.changes)))
    if drift.sticky:
        return Judged(drift, play_sticky(drift))
    return Judged(drift, judge(play(drift)))


def judge(observed: Observations) -> dict[str, ClauseResult]:
    """Judge all observations, as if every case had ended."""
    results: dict[str, ClauseResult] = {}
    judge_all(observed, results, LEVELS, {case.name for case in CASES} | {EVERYTHING})
    return results


def failures(results: dict[str, ClauseResult]) -> list[ClauseResult]:
    """Return the clauses that failed."""
    return [result for result in results.values() if result.result is Result.FAIL]


def recorded() -> tuple[tuple[str, str], ...]:
    """Return the engine and version of every release that has recordings."""
    return tuple((path.parent.name, path.name) for path in sorted(recorded_releases.CHECKOUT.glob("*/*")))


@cache
def base(engine: str) -> Observations:
    """Replay the newest recordings of an engine."""
    version = recorded_releases.newest(engine)
    if version is None:
        raise ValueError(f"there are no recordings of {engine}")
    return replay.replay(load.contract(engine).at(version))
