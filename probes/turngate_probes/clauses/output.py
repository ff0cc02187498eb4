"""Checks whether a user's settings leave what an orchestrator reads where it is."""

from turngate.contract.clauses import Reason
from turngate.contract.verdict import Finding
from turngate_probes.clauses.checks import SkippedError, check, passed
from turngate_probes.clauses.stream import RESUMABLE
from turngate_probes.harness.observations import NotObservedError, Observations, Turn
from turngate_probes.harness.output_case import ALL, ENVIRONMENT, departs, only, refused, together

_CASE = "any-settings"


@check("output.any-settings", _CASE, blames=RESUMABLE)
def any_settings(observed: Observations) -> Finding:
    """Framing, id, answer and end of both turns were where the contract says; a setting not in force is named."""
    contract = observed.contract
    if departures := [found for name in together(contract) for found in _departures(observed, name)]:
        symptoms = tuple(sorted({symptom for _, symptom, _ in departures if symptom}))
        details, evidence = ([found[part] for found in departures] for part in (0, 2))
        return Finding(ok=False, detail="; ".join(details), symptoms=symptoms, evidence=tuple(evidence))
    if not contract.output_settings:
        raise SkippedError("the contract names no setting of display, output, telemetry, hooks or language")
    turns = [observed.turn(step) for name in together(contract) for step in _steps(name)]
    wrong = [
        observed.turn(f"{_CASE}/{refused(setting.name)}")
        for setting in contract.output_settings
        if setting.shows.refused
    ]
    proven = {name for turn in turns for name in turn.in_force or ()}
    ended = [turn.name for turn in wrong if turn.exit_code != 0 and not turn.hung and not turn.sent()]
    names = [setting.name for setting in contract.output_settings]
    shown = [name for name in names if name in proven or f"{_CASE}/{refused(name)}" in ended]
    unproven = [name for name in names if name not in shown]
    if not shown:
        raise NotObservedError(f"nothing shows that {', '.join(unproven)} is in force", Reason.CONTRACT)
    reported = f"; unproven: {', '.join(unproven)}" if unproven else ""
    return passed(f"nothing changed with {', '.join(shown)}, which are in force{reported}", *turns, *wrong)


def _steps(name: str) -> tuple[str, str]:
    return f"{_CASE}/{name}", f"{_CASE}/{name}-again"


def _departures(observed: Observations, name: str) -> list[tuple[str, str, str]]:
    """Return the turns of a group that depart: what, the symptom of each culprit (empty: unknown), and the turn."""
    settings = together(observed.contract)[name]
    departing = _departing(observed, name)
    if not departing:
        return []
    if name != ALL:
        culprits: dict[str, tuple[str, list[Turn]]] = {name: (settings[0].kind, departing)}
    else:
        kinds: dict[str, str] = {setting.name: setting.kind for setting in settings} | {ENVIRONMENT: ENVIRONMENT}
        tried = {each: (kind, _departing(observed, only(each))) for each, kind in kinds.items()}
        culprits = {each: (kind, turns) for each, (kind, turns) in tried.items() if turns}
    if not culprits:
        return [(f"with all settings together: {departs(departing[0])}", "", departing[0].name)]
    return [(f"with {each}: {departs(turns[0])}", kind, turns[0].name) for each, (kind, turns) in culprits.items()]


def _departing(observed: Observations, name: str) -> list[Turn]:
    turns = (observed.turns.get(step) for step in _steps(name))
    return [turn for turn in turns if turn and departs(turn)]
