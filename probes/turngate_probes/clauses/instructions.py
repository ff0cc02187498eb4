"""Checks whether the instructions of a workspace reach the model."""

from turngate import Mode
from turngate.contract.clauses import Reason
from turngate.contract.verdict import Finding
from turngate_probes.clauses.checks import SkippedError, check, fail_if, passed
from turngate_probes.clauses.stream import RESUMABLE
from turngate_probes.harness.observations import NotObservedError, Observations

_CASES = {Mode.INTERACTIVE: "file-marks", Mode.AUTO: "auto"}


@check("instructions.reach", *_CASES.values(), blames=RESUMABLE)
def reach(observed: Observations) -> Finding:
    """Requests of both turns had the text of the file, except in modes for which the contract says what prevents it."""
    file = observed.contract.instructions
    if file is None:
        raise SkippedError("the contract names no instruction file of a workspace")
    left_out = {mode: file.left_out[mode.value] for mode in Mode if mode.value in file.left_out}
    reported = [f"{by} leaves it out in mode {mode}" for mode, by in left_out.items()]
    if len(left_out) == len(_CASES):
        raise SkippedError(f"{file.path} does not reach the model: {', '.join(reported)}")
    turns = []
    for mode, case in _CASES.items():
        for turn in (observed.turn(f"{case}/{step}") for step in ("first", "again")):
            if turn.instructed is None:
                raise NotObservedError(f"the recording of {turn.name} has no {file.path}", Reason.NO_RECORDING)
            if not turn.sent():
                raise NotObservedError(f"in {turn.name} the prompt was not sent to the model", by_engine=True)
            if mode in left_out:
                fail_if(turn.instructed, f"{file.path} was sent in spite of {left_out[mode]}", turn)
            else:
                what = f"{file.path} was not sent to the model in mode {mode}"
                fail_if(not turn.instructed, what, turn, symptom="not-sent")
            turns.append(turn)
    return passed("; ".join([f"{file.path} reached the model", *reported]), *turns)
