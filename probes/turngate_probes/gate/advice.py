"""One paragraph: what an orchestrator must change before it takes the newer release."""

from collections.abc import Iterator, Sequence

from turngate.contract.clauses import Result, Severity
from turngate.contract.load import catalogue
from turngate.contract.structs import EngineContract
from turngate_probes.report.gate_structs import Difference, Impact
from turngate_probes.report.structs import ReleaseReport

NOTHING = "An orchestrator has to change nothing."
UNKNOWN = "What an orchestrator must change is not known, since not everything could be asked."
MOST = 12
TOLD_APART = ("clause", "deviation")


def advice(
    new: ReleaseReport, compared: Sequence[Difference], was: EngineContract | None, now: EngineContract | None
) -> str:
    """Write the paragraph; `was` and `now` are the contracts of the two releases, None if unknown."""
    costly = [row for row in compared if row.impact in (Impact.BREAKING, Impact.DEGRADED)]
    claims = [_claim(row) for row in costly if row.kind == "claim"]
    surface = [_surface(row) for row in costly if row.kind not in (*TOLD_APART, "claim")]
    points = list(dict.fromkeys([*_failing(new), *_compensations(was, now), *claims, *surface]))
    more = [f"{len(points) - MOST} more points are in the report."] if len(points) > MOST else []
    return " ".join([*points[:MOST], *more]) or NOTHING


def _failing(new: ReleaseReport) -> Iterator[str]:
    """Return what a clause that fails costs; that of an informative one is nothing."""
    why = {name: clause.why for name, clause in catalogue().items()}
    for severity in (Severity.BREAKING, Severity.DEGRADED):
        for clause in new.clauses:
            if (clause.result, clause.severity) == (Result.FAIL, severity) and clause.id in why:
                yield f"{clause.id} fails, and {why[clause.id][0].lower()}{why[clause.id][1:]}"


def _compensations(was: EngineContract | None, now: EngineContract | None) -> Iterator[str]:
    """Return what the deviations ask for that are declared for the newer release alone."""
    before, after = ({(d.clause, d.symptom): d for d in side.deviations} if side else {} for side in (was, now))
    for clause, symptom in sorted(after.keys() - before.keys()) if was and now else ():
        yield f"It must {after[clause, symptom].compensation} ({clause})."


def _claim(row: Difference) -> str:
    if row.before is None:
        return f"It must know {row.after} ({row.subject.partition(':')[0]}): {row.detail}."
    if row.after is None:
        return f"It must not pass {row.before} any more: {row.detail}."
    return f"Where it wrote {row.subject} down as {row.before} it must write {row.after}."


def _surface(row: Difference) -> str:
    change = "is gone" if row.after is None else f"{row.before} became {row.after}"
    if row.after is not None and row.before in (None, row.after):
        change = f"is {row.after}"
    return f"The {row.kind} {row.subject} {change}: {row.detail}."
