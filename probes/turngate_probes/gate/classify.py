"""The impact of a difference between two releases on an orchestrator, independent of the engine.

Only the surface that the contract uses can be breaking.
"""

from enum import StrEnum

from turngate.contract.clauses import Result, Severity
from turngate_probes.report.gate_structs import Impact

# a change from or to a clause that was not run counts only against a pass
WORST_RESULT_FIRST = (Result.FAIL, Result.UNSUPPORTED, Result.DEVIATES, Result.NOT_RUN, Result.PASS)


class Use(StrEnum):
    """What the contract does with a part of an engine's surface.

    `relies`: turns need it, and a clause shows whether it still works; `offers`: callers may pass it, and no clause
    tests it; `none`: nothing.
    """

    RELIES = "relies"
    OFFERS = "offers"
    NONE = "none"


def of_clause(severity: Severity, before: Result, after: Result, *, fallen: bool) -> Impact:
    """Return the impact of a changed result; `fallen`: it could not be tested because a prerequisite fails."""
    if severity is Severity.INFORMATIVE or before is after or (after is Result.NOT_RUN and not fallen):
        return Impact.NONE
    if after is Result.FAIL or after is Result.NOT_RUN:
        return Impact.BREAKING if severity is Severity.BREAKING else Impact.DEGRADED
    better = WORST_RESULT_FIRST.index(after) > WORST_RESULT_FIRST.index(before)
    return Impact.ADDITIVE if better else Impact.DEGRADED


def of_surface(use: Use, *, holds: bool) -> Impact:
    """Return the impact of a lost part of the surface; `holds`: the clause that tests it still passes."""
    if use is Use.NONE:
        return Impact.NONE
    return Impact.DEGRADED if use is Use.RELIES and holds else Impact.BREAKING


def of_call(mode: str, outcome: str) -> Impact:
    """Return the impact of a changed tool call: in mode interactive none may run, in mode auto each should."""
    if outcome == "executed":
        return Impact.BREAKING if mode == "interactive" else Impact.NONE
    lost = ("hangs", "failed") if mode == "interactive" else ("hangs", "failed", "denied", "dropped")
    return Impact.DEGRADED if outcome in lost else Impact.NONE
