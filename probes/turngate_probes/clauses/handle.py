"""Checks of the session id that a first turn reports."""

from turngate.contract.verdict import Finding
from turngate.turn.session_id import HandleProblem
from turngate_probes.clauses.registry import check, failed, how_it_ended, passed, went_well
from turngate_probes.harness.observations import Observations, Turn

FIRST = "main/first"
# without them a turn has no session id that could be resumed
RESUMABLE = ("handle.present", "handle.place", "handle.shape")
# not the case of imitation, which has a clause of its own
AGREEING = ("main", "bad-handles", "auto")


@check("handle.present", "main")
def present(seen: Observations) -> Finding:
    """Some record holds the field that the contract names, wherever it stands."""
    turn = seen.turn(FIRST)
    if turn.reading.handle.problem is HandleProblem.MISSING:
        return failed(f"{turn.reading.handle.detail} ({how_it_ended(turn)})", turn)
    return passed(f"{turn.reading.handle.sightings[0].value}", turn)


@check("handle.place", *AGREEING)
def place(seen: Observations) -> Finding:
    """The id stands on the right stream, in the right record, and every first turn agrees."""
    for turn in _first_turns(seen):
        if turn.reading.handle.problem is HandleProblem.PLACE:
            return failed(turn.reading.handle.detail, turn)
    turn = seen.turn(FIRST)
    return passed(turn.reading.handle.detail, turn)


@check("handle.shape", "main")
def shape(seen: Observations) -> Finding:
    """The id has the contract's shape."""
    turn = seen.turn(FIRST)
    if turn.reading.handle.problem is HandleProblem.SHAPE:
        return failed(turn.reading.handle.detail, turn)
    return passed(f"matches {seen.contract.handle.shape}", turn)


def _first_turns(seen: Observations) -> list[Turn]:
    """Return the first turn of all, and those of other cases that ended well."""
    first = [turn for name, turn in seen.turns.items() if name.partition("/")[0] in AGREEING and turn.resumed is None]
    return [seen.turn(FIRST)] + [turn for turn in first if went_well(turn)]
