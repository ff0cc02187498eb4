"""Checks of what an engine does after the question that ends its turn."""

from collections.abc import Iterator

from msgspec import Struct

from turngate import Ended, Outcome
from turngate.contract.verdict import Finding
from turngate_probes.clauses.checks import SkippedError, check, fail_if, how_it_ended, passed
from turngate_probes.clauses.stream import RESUMABLE
from turngate_probes.harness.observations import NotObservedError, Observations, Turn

STEPS = ("first", "again")
MOST = 5  # changed files that are named


@check("turn.ends-once", "main", "ends-once", blames=RESUMABLE)
def ends_once(observed: Observations) -> Finding:
    """The question ended the turn, no request followed it, the process exited, and nothing was written."""
    calls = observed.contract.ongoing_calls
    if not calls:
        raise SkippedError("the contract names no tool that outlives a turn")
    lingers = any(deviation.clause == "process.clean-exit" for deviation in observed.contract.deviations)
    plain = observed.turns.get("main/first")
    lingers = lingers or (plain is not None and plain.ended is Ended.LINGERED)  # which another clause reports
    # whatever happened counts, even if a later turn is missing
    for turn in filter(None, (observed.turns.get(f"ends-once/{step}") for step in STEPS)):
        if signs := tuple(_signs(turn, lingers=lingers)):
            detail, symptoms = "; ".join(sign.detail for sign in signs), tuple(sign.symptom for sign in signs)
            return Finding(ok=False, detail=detail, symptoms=symptoms, evidence=(turn.name,))
        answered, reading = turn.reading.result.outcome is Outcome.ASK_USER, turn.reading
        if reading.session is None:  # then no question can be read, which other clauses report
            raise NotObservedError(f"{turn.name} reported no session id", by_engine=True)
        fail_if(not answered, f"the question got lost: {reading.result.failure_reason or reading.final_text}", turn)
    turns = [observed.turn(f"ends-once/{step}") for step in STEPS]
    for turn in turns:
        made = sum(request.is_call for request in turn.watched)
        if made < len(calls):
            raise NotObservedError(
                f"in {turn.name} the model could make only {made} of {len(calls)} calls", by_engine=True
            )
    return passed(
        f"its turns ended with the question, after calls of {', '.join(dict.fromkeys(call.tool for call in calls))}",
        *turns,
    )


class _Sign(Struct, frozen=True):
    detail: str
    symptom: str


def _signs(turn: Turn, *, lingers: bool) -> Iterator[_Sign]:
    """Yield what shows that a turn went on; a process that `lingers` stays after every turn, whatever is called."""
    more, records = _after_answer(turn), ", ".join(turn.reading.after_end)
    if more or records:
        printed = f", and printed {records}" if records else ""
        sent = f"{more} more request{'' if more == 1 else 's'}"
        yield _Sign(f"it sent the model {sent} after its question{printed}", symptom="goes-on")
    if turn.hung or (turn.ended is Ended.LINGERED and not lingers):
        yield _Sign(f"it stayed after its question ({how_it_ended(turn)})", symptom="stays")
    if turn.changed:
        yield _Sign(f"it wrote {', '.join(turn.changed[:MOST])}", symptom="changes-files")


def _after_answer(turn: Turn) -> int:
    """Return how many requests followed the model's answer, which comes after its last call.

    A request without tools is none of the agent: it is for a title or a summary.
    """
    offering = [request for request in turn.watched if request.tools]
    last_call = max((at for at, request in enumerate(offering) if request.is_call), default=-1)
    own = (at for at, request in enumerate(offering) if at > last_call and turn.nonce in request.nonces)
    return len(offering) - 1 - next(own, len(offering) - 1)
