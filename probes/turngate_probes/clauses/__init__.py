"""Judges what was seen: one function per clause, from turns to a finding.

A check reads turns by name and never runs anything, so that it serves recordings as well as real runs.
"""

from collections.abc import Iterable

from turngate import load
from turngate.clauses import Clause, Result
from turngate.verdict import ClauseResult, judged, unmet
from turngate_probes.clauses import (
    backend,
    gate,
    handle,
    live,
    orchestrated,
    process,
    prompt,
    resident,
    resume,
    static,
    stream,
)
from turngate_probes.clauses.registry import CHECKS, Check, SkippedError
from turngate_probes.observe import NotSeenError, Seen

__all__ = [
    "CHECKS",
    "backend",
    "gate",
    "handle",
    "judge",
    "judge_all",
    "live",
    "orchestrated",
    "process",
    "prompt",
    "resident",
    "resume",
    "static",
    "stream",
    "with_needs",
]


def with_needs(clause_ids: Iterable[str]) -> frozenset[str]:
    """Give the clauses and all that they need; KeyError if there is no such clause."""
    found = set[str]()
    open_ = list(clause_ids)
    while open_:
        clause = load.catalogue()[open_.pop()]
        found.add(clause.id)
        open_ += set(clause.needs) - found
    return frozenset(found)


def judge_all(
    seen: Seen,
    results: dict[str, ClauseResult],
    levels: Iterable[str],
    done: set[str],
    only: frozenset[str] | None = None,
) -> list[ClauseResult]:
    """Judge the clauses of the levels that have no result yet and whose cases are `done`; give the new ones.

    With `only`, which holds what each needs too, other clauses are left out.
    """
    fresh = []
    for clause in load.catalogue().at_level(*levels):
        if only is not None and clause.id not in only:
            continue
        check = CHECKS[clause.id]
        ready = done >= set(check.cases) and all(need in results for need in clause.needs)
        if clause.id not in results and ready:
            results[clause.id] = judge(clause, check, seen, results)
            fresh.append(results[clause.id])
    return fresh


def judge(clause: Clause, check: Check, seen: Seen, results: dict[str, ClauseResult]) -> ClauseResult:
    """Judge one clause: by what it needs, then by its check, then against the declared deviations."""
    if missing := unmet(clause, results):
        return missing
    try:
        return judged(clause, check.run(seen), seen.contract)
    except NotSeenError as reason:
        return ClauseResult(clause, Result.NOT_RUN, str(reason))
    except SkippedError as reason:
        return ClauseResult(clause, Result.UNSUPPORTED, str(reason))
