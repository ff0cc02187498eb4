"""One paragraph: what an orchestrator must change before it takes the newer release."""

from collections.abc import Iterator, Sequence

from turngate.contract.clauses import Severity
from turngate.contract.load import catalogue
from turngate.contract.structs import EngineContract
from turngate_probes.gate.classify import Difference, Impact
from turngate_probes.report.structs import ReleaseReport

NOTHING = "An orchestrator has to change nothing."
UNKNOWN = "What an orchestrator must change is not known, since not everything could be asked."
WEIGHED = (Impact.BREAKING, Impact.DEGRADED)
MOST = 12
TOLD_APART = ("clause", "claim", "deviation")
SEVERITIES = [severity.value for severity in Severity]


def advice(
    new: ReleaseReport, found: Sequence[Difference], was: EngineContract | None, now: EngineContract | None
) -> str:
    """Write the paragraph; `was` and `now` are the contracts of the two releases, None if unknown."""
    said = list(dict.fromkeys([*_failing(new), *_compensations(was, now), *_claims(found), *_surface(found)]))
    if not said:
        return NOTHING
    more = [f"{len(said) - MOST} more points are in the report."] if len(said) > MOST else []
    return " ".join([*said[:MOST], *more])


def _failing(new: ReleaseReport) -> Iterator[str]:
    """Return what a clause that fails costs; that of an informative one is nothing."""
    for each in sorted(new.clauses, key=lambda clause: SEVERITIES.index(clause.severity)):
        known = next((clause for clause in catalogue().clauses if clause.id == each.id), None)
        if each.result == "fail" and each.severity != "informative" and known:
            yield f"{each.id} fails, and {known.why[0].lower()}{known.why[1:]}"


def _compensations(was: EngineContract | None, now: EngineContract | None) -> Iterator[str]:
    """Return what the deviations ask for that are declared for the newer release alone."""
    before, after = ({(d.clause, d.symptom): d for d in side.deviations} if side else {} for side in (was, now))
    for clause, symptom in sorted(after.keys() - before.keys()) if was and now else ():
        yield f"It must {after[clause, symptom].compensation} ({clause})."


def _claims(found: Sequence[Difference]) -> Iterator[str]:
    for each in found:
        if each.kind != "claim" or each.impact not in WEIGHED:
            continue
        if each.before is None:
            yield f"It must know {each.after} ({each.subject.partition(':')[0]}): {each.detail}."
        elif each.after is None:
            yield f"It must not pass {each.before} any more: {each.detail}."
        else:
            yield f"Where it wrote {each.subject} down as {each.before} it must write {each.after}."


def _surface(found: Sequence[Difference]) -> Iterator[str]:
    for each in found:
        if each.kind not in TOLD_APART and each.impact in WEIGHED:
            yield f"The {each.kind} {each.subject} {_change(each)}: {each.detail}."


def _change(each: Difference) -> str:
    if each.after is None:
        return "is gone"
    if each.before is None or each.before == each.after:
        return f"is {each.after}"
    return f"{each.before} became {each.after}"
