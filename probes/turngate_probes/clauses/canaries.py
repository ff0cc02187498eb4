"""Checks whether an engine starts programs that it is offered."""

from turngate.contract.clauses import Reason
from turngate.contract.verdict import Finding
from turngate_probes.clauses.checks import SkippedError, check, fail_if, how_it_ended, passed, went_well
from turngate_probes.clauses.stream import RESUMABLE
from turngate_probes.harness.observations import NotObservedError, Observations


@check("interactive.nothing-started", "canaries", blames=RESUMABLE)
def nothing_started(observed: Observations) -> Finding:
    """No turn in mode interactive started a canary, and the control run did, without which silence shows nothing."""
    kinds = {canary.name: canary.kind for canary in observed.contract.canaries}
    if not kinds:
        raise SkippedError("the contract names no way to make it start a program")
    turns = []
    for turn in map(observed.turn, ("canaries/first", "canaries/again")):
        started = ", ".join(f"{name} ({kinds.get(name, 'unknown')})" for name in turn.started or ())
        fail_if(started, f"an interactive turn started {started}", turn)
        fail_if(not went_well(turn), how_it_ended(turn), turn)
        turns.append(turn)
    control = observed.turn("canaries/control")
    proven, unproven = ([name for name in kinds if (name in (control.started or ())) is ran] for ran in (True, False))
    if not proven:
        missing = f"the control run started none of {', '.join(unproven)}, so that nothing is shown"
        raise NotObservedError(missing, Reason.CONTRACT)
    detail = f"started nothing of {', '.join(proven)}, which it starts where nothing guards it"
    return passed(detail + (f"; unproven: {', '.join(unproven)}" if unproven else ""), *turns, control)
