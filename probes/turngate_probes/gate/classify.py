"""What a difference between two releases costs an orchestrator; nothing here knows an engine.

Only the surface that the contract uses can be breaking.
"""

from enum import StrEnum

from turngate.contract.clauses import Result, Severity
from turngate_probes.report.gate_structs import Impact

# a clause that was not run says nothing of what it was before, and less than any result but a pass of what it is now
WORST_RESULT_FIRST = (Result.FAIL, Result.UNSUPPORTED, Result.DEVIATES, Result.NOT_RUN, Result.PASS)


class Use(StrEnum):
    """What the contract does with a part of an engine's surface.

    `relies`: turns are run or read by it, and a clause shows whether they still are; `offers`: callers may pass it,
    and no clause does; `none`: nothing.
    """

    RELIES = "relies"
    OFFERS = "offers"
    NONE = "none"


def of_clause(severity: Severity, before: Result, after: Result, *, fallen: bool) -> Impact:
    """Weigh the change of a clause's result; `fallen`: it could not be asked since one that it needs does not hold."""
    if severity is Severity.INFORMATIVE or before is after or (after is Result.NOT_RUN and not fallen):
        return Impact.NONE
    if after is Result.FAIL or after is Result.NOT_RUN:
        return Impact.BREAKING if severity is Severity.BREAKING else Impact.DEGRADED
    better = WORST_RESULT_FIRST.index(after) > WORST_RESULT_FIRST.index(before)
    return Impact.ADDITIVE if better else Impact.DEGRADED


def of_surface(use: Use, *, holds: bool) -> Impact:
    """Weigh what is gone of an engine's surface; `holds`: the clause that shows it still does."""
    if use is Use.NONE:
        return Impact.NONE
    return Impact.DEGRADED if use is Use.RELIES and holds else Impact.BREAKING


def of_call(mode: str, outcome: str) -> Impact:
    """Weigh that a tool call now ends in another way: in mode interactive none may run, in mode auto each should."""
    if outcome == "executed":
        return Impact.BREAKING if mode == "interactive" else Impact.NONE
    lost = ("hangs", "failed") if mode == "interactive" else ("hangs", "failed", "denied", "dropped")
    return Impact.DEGRADED if outcome in lost else Impact.NONE
