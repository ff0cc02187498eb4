"""Judges observations: one function per clause, from turns to a finding.

A check reads turns by name and never runs anything, so that it works on recordings as well as real runs.
"""

from collections.abc import Iterable

from msgspec import structs

from turngate.contract import load
from turngate.contract.clauses import Clause, Reason, Result
from turngate.contract.verdict import ClauseResult, Finding, fallen, judged
from turngate_probes.clauses import (  # noqa: F401 - importing them registers their checks
    canaries,
    gate,
    process,
    prompt,
    resume,
    server,
    sticky,
    stream,
    surroundings,
)
from turngate_probes.clauses.registry import CHECKS as CHECKS
from turngate_probes.clauses.registry import Check, SkippedError, went_well
from turngate_probes.harness.interrupt import Obstacle
from turngate_probes.harness.observations import NotSeenError, Observations

# what fails if no turn works; a turn that fails like all others says nothing about the clause that it was made for
REPORTS = {"hermetic": "turn.terminal-event", "server": "server.waits"}
SHOWN = 3  # last observations of a case that could not continue


def with_needs(clause_ids: Iterable[str]) -> frozenset[str]:
    """Return the clauses, their prerequisites and the first clause that each blames; KeyError for an unknown clause."""
    wanted = set[str]()
    open_ = list(clause_ids)
    while open_:
        clause = load.catalogue()[open_.pop()]
        wanted.add(clause.id)
        report = _report(clause) if clause.level == "hermetic" else ()
        open_ += {*clause.needs, *CHECKS[clause.id].blames[:1], *report} - wanted
    return frozenset(wanted)


def judge_all(
    seen: Observations,
    results: dict[str, ClauseResult],
    levels: Iterable[str],
    done: set[str],
    only: frozenset[str] | None = None,
) -> list[ClauseResult]:
    """Judge the clauses of the levels that have no result yet and whose cases are `done`; return the new results.

    With `only`, which includes prerequisites, other clauses are left out.
    """
    open_ = [c for c in load.catalogue().at_level(*levels) if c.id not in results and (only is None or c.id in only)]
    fresh: list[ClauseResult] = []
    asked = {clause.id for clause in open_} | set(results)
    while ready := [c for c in open_ if c.id not in results and _is_ready(c, asked - set(results), done)]:
        for clause in ready:
            results[clause.id] = judge(clause, CHECKS[clause.id], seen, results)
            fresh.append(results[clause.id])
    return fresh


def _is_ready(clause: Clause, waiting: set[str], done: set[str]) -> bool:
    check = CHECKS[clause.id]
    return done >= set(check.cases) and waiting.isdisjoint((*clause.needs, *check.blames, *_report(clause)))


def _report(clause: Clause) -> set[str]:
    return {report for level, report in REPORTS.items() if level == clause.level} - {clause.id}


def judge(clause: Clause, check: Check, seen: Observations, results: dict[str, ClauseResult]) -> ClauseResult:
    """Judge one clause by its prerequisites, its check, and the declared deviations.

    A failure on a turn that did not end properly counts only if other turns do.
    """
    if missing := fallen(clause, clause.needs, results):
        return missing
    try:
        finding = check.run(seen)
        judged_turns = [seen.turns[name] for name in finding.evidence if name in seen.turns]
        is_shown = clause.level != "hermetic" or all(map(went_well, judged_turns))
        if not finding.ok and not is_shown and (blamed := _broken(clause, results)):
            return structs.replace(blamed, detail=f"{finding.detail}; {blamed.detail}", evidence=finding.evidence)
        return judged(clause, finding, seen.contract)
    except NotSeenError as unseen:
        return _not_seen(clause, check, seen, unseen.obstacle, results)
    except SkippedError as reason:
        return ClauseResult.of(clause, Result.UNSUPPORTED, str(reason))


def _broken(clause: Clause, results: dict[str, ClauseResult]) -> ClauseResult | None:
    """Return `not_run` if no turn of the engine works."""
    return fallen(clause, _report(clause) & set(results), results)


def _not_seen(
    clause: Clause, check: Check, seen: Observations, obstacle: Obstacle, results: dict[str, ClauseResult]
) -> ClauseResult:
    """Judge a clause with a missing observation: it fails if the engine caused that and no other clause reports it."""
    named = None
    if obstacle.by_engine and (obstacle.at_first or clause.level == "hermetic"):
        named = _broken(clause, results)
    named = named or fallen(clause, (blamed for blamed in check.blames if blamed in results), results)
    if named:
        return structs.replace(named, detail=f"{obstacle.text}; {named.detail}")
    if obstacle.by_engine:
        evidence = [item.name for item in (*seen.calls.values(), *seen.turns.values()) if item.case in check.cases]
        return judged(clause, Finding(ok=False, detail=obstacle.text, evidence=tuple(evidence[-SHOWN:])), seen.contract)
    if obstacle.reason is Reason.NO_RECORDING and (known := _declared(clause, seen)):
        detail = f"{obstacle.text}, but the contract declares it: {', '.join(known)}"
        return judged(clause, Finding(ok=False, detail=detail, symptoms=known), seen.contract)
    return ClauseResult.of(clause, Result.NOT_RUN, obstacle.text, reason=obstacle.reason)


def _declared(clause: Clause, seen: Observations) -> tuple[str, ...]:
    """Return the symptoms that the contract declares: what is known counts even where no recording can show it."""
    return tuple(d.symptom for d in seen.contract.deviations if d.clause == clause.id)
