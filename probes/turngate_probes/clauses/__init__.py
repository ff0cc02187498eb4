"""Judges observations: one function per clause, from turns to a finding.

Theory of operation
===================

A check is a function from observations to a finding. It reads turns, pages and calls by name and never runs anything,
so it works on recordings as well as on real runs. It knows nothing of other clauses and of deviations: `judge` adds
both. Each clause gets one result, and keeps it.

*When.* `judge_all` runs each time a case has ended. It judges a clause once the cases of its check are done, and of the
clauses that are to be judged at all, those have a result that it needs, that it blames, and that report for its level
that no turn works (`REPORTS`).

*Needs* stand in the catalogue: clauses without which this one means nothing. If one has failed, was not run or is
unsupported, this one is `not_run` and names it, whatever was observed. A need that deviates counts as held.

*Healthy turns.* A turn that fails like every other turn says nothing about the clause that it was made for. A turn went
well (`went_well`) if it ended in time with exit code 0, or with its terminal event if the process had to be ended after
it, reported no failure, and printed something. If a check of level hermetic or long fails, not all turns in its
evidence went well, and `turn.terminal-event` doesn't hold, then the clause doesn't fail: it is `not_run` and names that
one. So a check must name every turn that it has judged as evidence, and none that it hasn't.

*Blames* stand at the check: clauses that report the failures of the engine which keep its case from running. They are
asked only if an observation is missing, so that one failure is reported once:

1. If the engine is the reason, at level hermetic or long or in the first turn of all, and the report of the level
   doesn't hold, the clause is `not_run` and names that.
2. If one of the blamed clauses that were judged doesn't hold, the clause is `not_run` and names it.
3. If the engine is the reason all the same, the clause fails, since nobody else has reported that.
4. If only a recording is missing, and the contract declares deviations from the clause, they count as observed.
5. Otherwise the clause is `not_run` for a reason in the environment. One that has neither a clause nor a reason to name
   is a bug in turngate.

*Symptoms and deviations.* A failure may have symptoms, words that the catalogue lists for the clause. It `deviates`
instead of failing if it has at least one and the contract declares them all for this release, with what an orchestrator
must do about each. A failure without a symptom is never excused, nor is any failure of a baseline clause. A pass or a
deviation is `stale` if another declared symptom didn't occur, unless that one is declared as flaky.

A check that finds that the release lacks the feature raises SkippedError; the clause is `unsupported`. What all results
together mean for the release is up to `turngate.contract.verdict`.
"""

from collections.abc import Iterable

from msgspec import structs

from turngate.contract import load
from turngate.contract.clauses import Clause, Reason, Result
from turngate.contract.verdict import ClauseResult, Finding, clause_result, fallen
from turngate_probes.clauses import (  # noqa: F401 - importing them registers their checks
    artifacts,
    canaries,
    gate,
    instructions,
    model,
    ongoing,
    output,
    process,
    prompt,
    resume,
    server,
    session,
    settings,
    sticky,
    stream,
    tools,
)
from turngate_probes.clauses.checks import CHECKS as CHECKS
from turngate_probes.clauses.checks import Check, SkippedError, went_well
from turngate_probes.harness.interrupt import Obstacle
from turngate_probes.harness.observations import NotObservedError, Observations

# what fails if no turn works; a turn that fails like all others says nothing about the clause that it was made for
REPORTS = {"hermetic": "turn.terminal-event", "long": "turn.terminal-event", "server": "server.waits"}
ON_STUB = ("hermetic", "long")  # the levels whose turns run against the stub model
SHOWN = 3  # last observations of a case that could not continue


def with_prerequisites(clause_ids: Iterable[str]) -> frozenset[str]:
    """Return the clauses, their prerequisites and the first clause that each blames; KeyError for an unknown clause."""
    wanted = set[str]()
    open_ = list(clause_ids)
    while open_:
        clause = load.catalogue()[open_.pop()]
        wanted.add(clause.id)
        report = _report(clause) if clause.level in ON_STUB else ()
        open_ += {*clause.needs, *CHECKS[clause.id].blames[:1], *report} - wanted
    return frozenset(wanted)


def judge_all(
    observed: Observations,
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
            results[clause.id] = judge(clause, CHECKS[clause.id], observed, results)
            fresh.append(results[clause.id])
    return fresh


def _is_ready(clause: Clause, waiting: set[str], done: set[str]) -> bool:
    check = CHECKS[clause.id]
    return done >= set(check.cases) and waiting.isdisjoint((*clause.needs, *check.blames, *_report(clause)))


def _report(clause: Clause) -> set[str]:
    return {report for level, report in REPORTS.items() if level == clause.level} - {clause.id}


def judge(clause: Clause, check: Check, observed: Observations, results: dict[str, ClauseResult]) -> ClauseResult:
    """Judge one clause by its prerequisites, its check, and the declared deviations.

    A failure on a turn that did not end properly counts only if other turns do.
    """
    if missing := fallen(clause, clause.needs, results):
        return missing
    try:
        finding = check.run(observed)
        judged_turns = [observed.turns[name] for name in finding.evidence if name in observed.turns]
        is_shown = clause.level not in ON_STUB or all(map(went_well, judged_turns))
        if not finding.ok and not is_shown and (blamed := _broken(clause, results)):
            return structs.replace(blamed, detail=f"{finding.detail}; {blamed.detail}", evidence=finding.evidence)
        return clause_result(clause, finding, observed.contract)
    except NotObservedError as unseen:
        return _not_seen(clause, check, observed, unseen.obstacle, results)
    except SkippedError as reason:
        return ClauseResult.of(clause, Result.UNSUPPORTED, str(reason))


def _broken(clause: Clause, results: dict[str, ClauseResult]) -> ClauseResult | None:
    """Return `not_run` if no turn of the engine works."""
    return fallen(clause, _report(clause) & set(results), results)


def _not_seen(
    clause: Clause, check: Check, observed: Observations, obstacle: Obstacle, results: dict[str, ClauseResult]
) -> ClauseResult:
    """Judge a clause with a missing observation: it fails if the engine caused that and no other clause reports it."""
    named = None
    if obstacle.by_engine and (obstacle.at_first or clause.level in ON_STUB):
        named = _broken(clause, results)
    named = named or fallen(clause, (blamed for blamed in check.blames if blamed in results), results)
    if named:
        return structs.replace(named, detail=f"{obstacle.text}; {named.detail}")
    if obstacle.by_engine:
        evidence = [
            item.name for item in (*observed.calls.values(), *observed.turns.values()) if item.case in check.cases
        ]
        return clause_result(
            clause, Finding(ok=False, detail=obstacle.text, evidence=tuple(evidence[-SHOWN:])), observed.contract
        )
    if obstacle.reason is Reason.NO_RECORDING and (known := _declared(clause, observed)):
        detail = f"{obstacle.text}, but the contract declares it: {', '.join(known)}"
        return clause_result(clause, Finding(ok=False, detail=detail, symptoms=known), observed.contract)
    return ClauseResult.of(clause, Result.NOT_RUN, obstacle.text, reason=obstacle.reason)


def _declared(clause: Clause, observed: Observations) -> tuple[str, ...]:
    """Return the symptoms that the contract declares: what is known counts even where no recording can show it."""
    return tuple(d.symptom for d in observed.contract.deviations if d.clause == clause.id)
