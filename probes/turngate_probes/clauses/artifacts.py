"""Checks of what the model writes in mode interactive where a turn may write artifacts."""

from collections.abc import Iterator

from turngate.contract.clauses import Reason
from turngate.contract.verdict import Finding
from turngate_probes.clauses.checks import SkippedError, check, fail_if, how_it_ended, passed
from turngate_probes.clauses.prompt import check_asks
from turngate_probes.clauses.stream import RESUMABLE
from turngate_probes.harness.artifacts_case import INSIDE, PLACES, played
from turngate_probes.harness.observations import NotObservedError, Observations, Turn


@check("interactive.artifacts-written", "artifacts", blames=RESUMABLE)
def artifacts_written(observed: Observations) -> Finding:
    """A file was written below the directory on every turn."""
    turns = []
    for turn in _turns(observed):
        what = f"nothing was written below the directory for artifacts ({how_it_ended(turn)})"
        fail_if(turn.called and INSIDE not in turn.written, what, turn, symptom="not-written")
        _check_called(turn)
        turns.append(turn)
    return passed("a file was written below the directory on the first turn and the resume", *turns)


@check("interactive.writes-only-artifacts", "artifacts", "asked-model", blames=RESUMABLE)
def writes_only_artifacts(observed: Observations) -> Finding:
    """Nothing was written elsewhere on any turn, although the model asked for it."""
    # whatever happened counts, even if a later turn is missing
    for turn in (turn for turn in observed.turns.values() if turn.case in ("artifacts", "asked-model")):
        elsewhere = [place for place in turn.written if place != INSIDE]
        fail_if(elsewhere, f"a file was written {', '.join(elsewhere)}", turn, symptom="elsewhere")
    turns = []
    for turn in _turns(observed):
        _check_called(turn)
        check_asks(turn, turn.own_arguments, observed.contract)
        turns.append(turn)
    places = ", ".join(place for place in PLACES if place != INSIDE)
    return passed(f"nothing was written {places}", *turns)


def _turns(observed: Observations) -> Iterator[Turn]:
    contract = observed.contract
    if contract.artifacts is None:
        raise SkippedError("the contract names no means that lets it write artifacts alone")
    if contract.hermetic.tool_call is None:
        raise NotObservedError("the contract names no tool for the model to call", Reason.CONTRACT)
    for name in played(contract):
        for step in (name, f"{name}-again"):
            yield observed.turn(f"artifacts/{step}")


def _check_called(turn: Turn) -> None:
    """Check that the model made all calls, since only then it means something that they had no effect."""
    calls = sum(request.reply.startswith("tool_call ") for request in turn.watched)
    if calls < len(PLACES):
        what = f"in {turn.name} the model made {calls} of {len(PLACES)} calls ({how_it_ended(turn)})"
        raise NotObservedError(what, by_engine=True)
