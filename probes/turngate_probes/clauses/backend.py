"""Checks of how an engine handles a failing model backend."""

from turngate import Ended
from turngate.contract.verdict import Finding
from turngate_probes.clauses.registry import check, how_it_ended
from turngate_probes.harness.cases import FAILING
from turngate_probes.harness.observations import Observations, Turn


@check("backend.failure-told", *FAILING)
def failure_told(seen: Observations) -> Finding:
    """The exit code reported each failing backend, in time.

    Symptoms are `hang-…`, `success-…` and, if an event reported the error, `exit-0-…`.
    """
    names = [f"{case}/first" for case in FAILING]
    turns = [seen.turns[name] for name in names if name in seen.turns]
    if all(turn.requests is not None for turn in turns):  # recordings may lack some
        turns = [seen.turn(name) for name in names]
    symptoms = {turn.name: symptom for turn in turns if (symptom := _symptom(turn))}
    told = "; ".join(f"{_kind(turn)}: {how_it_ended(turn)}" for turn in turns)
    return Finding(not symptoms, told, tuple(symptoms.values()), tuple(turn.name for turn in turns))


def _symptom(turn: Turn) -> str | None:
    if turn.hung:
        return f"hang-{_kind(turn)}"
    if turn.ended is Ended.LINGERED:
        return None if turn.reading.failures else f"success-{_kind(turn)}"
    if turn.exit_code == 0:
        return f"exit-0-{_kind(turn)}" if turn.reading.failures else f"success-{_kind(turn)}"
    return None


def _kind(turn: Turn) -> str:
    return turn.case.removeprefix("backend-")
