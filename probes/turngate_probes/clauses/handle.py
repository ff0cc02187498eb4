"""Checks of the session id that a first turn reports."""

from turngate.contract.verdict import Finding
from turngate.turn.session_id import HandleProblem
from turngate_probes.clauses.registry import check, fail_if, how_it_ended, passed, went_well
from turngate_probes.harness.observations import Observations

FIRST = "main/first"
# without them, a turn has no session id to resume
RESUMABLE = ("handle.present", "handle.place")
# not the imitation case, which has a separate clause
AGREEING = ("main", "bad-handles", "auto")


@check("handle.present", "main")
def present(seen: Observations) -> Finding:
    """A record, on either stream, has the field that the contract names, with a value that can be passed on."""
    turn = seen.turn(FIRST)
    handle = turn.reading.handle
    is_lacking = handle.problem in (HandleProblem.MISSING, HandleProblem.UNSAFE)
    fail_if(is_lacking, f"{handle.detail} ({how_it_ended(turn)})", turn)
    return passed(f"{handle.sightings[0].value}", turn)


@check("handle.place", *AGREEING)
def place(seen: Observations) -> Finding:
    """The id is on the right stream, in the right record, in every successful first turn."""
    first = seen.turn(FIRST)
    begun = [turn for turn in seen.turns.values() if turn.case in AGREEING and turn.resumed is None and went_well(turn)]
    for turn in (first, *begun):
        fail_if(turn.reading.handle.problem is HandleProblem.PLACE, turn.reading.handle.detail, turn)
    return passed(first.reading.handle.detail, first)


@check("handle.shape", "main")
def shape(seen: Observations) -> Finding:
    """The id has the contract's shape."""
    turn = seen.turn(FIRST)
    fail_if(turn.reading.handle.unfamiliar, turn.reading.handle.unfamiliar, turn)
    return passed(f"matches {seen.contract.handle.shape}", turn)
