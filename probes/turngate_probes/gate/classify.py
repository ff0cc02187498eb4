"""What a difference between two releases costs an orchestrator: two tables, and nothing that knows an engine.

Only the surface that the contract uses can be breaking.
"""

from enum import StrEnum

from msgspec import Struct

from turngate.contract.clauses import Result, Severity


class Impact(StrEnum):
    """What a difference costs, worst first."""

    BREAKING = "breaking"
    DEGRADED = "degraded"
    ADDITIVE = "additive"
    NONE = "none"


class Difference(Struct, frozen=True):
    """One thing in which two releases differ.

    `kind` is clause, option, event, key, tool, call, claim or deviation; `before` and `after` are what each release
    shows of the `subject` (None: nothing); `clause` is the promise that the difference is about, by which a baseline
    excuses it.
    """

    kind: str
    subject: str
    before: str | None
    after: str | None
    impact: Impact
    detail: str
    clause: str | None = None


# what became of a clause; a pair that is not here says nothing
_LOST, _WEAKER, _GAINED = "lost", "weaker", "gained"
CHANGES = {
    (Result.PASS, Result.FAIL): _LOST,
    (Result.DEVIATES, Result.FAIL): _LOST,
    (Result.UNSUPPORTED, Result.FAIL): _LOST,
    (Result.NOT_RUN, Result.FAIL): _LOST,
    (Result.PASS, Result.DEVIATES): _WEAKER,
    (Result.PASS, Result.UNSUPPORTED): _WEAKER,
    (Result.DEVIATES, Result.UNSUPPORTED): _WEAKER,
    (Result.NOT_RUN, Result.DEVIATES): _WEAKER,
    (Result.NOT_RUN, Result.UNSUPPORTED): _WEAKER,
    (Result.FAIL, Result.PASS): _GAINED,
    (Result.FAIL, Result.DEVIATES): _GAINED,
    (Result.FAIL, Result.UNSUPPORTED): _GAINED,
    (Result.DEVIATES, Result.PASS): _GAINED,
    (Result.UNSUPPORTED, Result.PASS): _GAINED,
    (Result.UNSUPPORTED, Result.DEVIATES): _GAINED,
    (Result.NOT_RUN, Result.PASS): _GAINED,
}
COST = {
    (_LOST, Severity.BREAKING): Impact.BREAKING,
    (_LOST, Severity.DEGRADED): Impact.DEGRADED,
    (_WEAKER, Severity.BREAKING): Impact.DEGRADED,
    (_WEAKER, Severity.DEGRADED): Impact.DEGRADED,
    (_GAINED, Severity.BREAKING): Impact.ADDITIVE,
    (_GAINED, Severity.DEGRADED): Impact.ADDITIVE,
}


class Use(StrEnum):
    """What the contract does with a part of an engine's surface.

    `relies`: turns are run or read by it, and a clause shows whether they still are; `offers`: callers may pass it,
    and no clause does; `none`: nothing.
    """

    RELIES = "relies"
    OFFERS = "offers"
    NONE = "none"


# by what became of it, its use, and whether the clause that shows it holds in the newer release
SURFACE = {
    ("gone", Use.RELIES, False): Impact.BREAKING,
    ("gone", Use.RELIES, True): Impact.DEGRADED,
    ("gone", Use.OFFERS, False): Impact.BREAKING,
    ("gone", Use.OFFERS, True): Impact.BREAKING,
    ("gone", Use.NONE, False): Impact.NONE,
    ("gone", Use.NONE, True): Impact.NONE,
}

# what became of a tool call, by mode
CALLS = {
    ("interactive", "executed"): Impact.BREAKING,
    ("interactive", "hangs"): Impact.DEGRADED,
    ("interactive", "failed"): Impact.DEGRADED,
    ("auto", "denied"): Impact.DEGRADED,
    ("auto", "hangs"): Impact.DEGRADED,
    ("auto", "failed"): Impact.DEGRADED,
    ("auto", "dropped"): Impact.DEGRADED,
}


def of_clause(severity: Severity, before: Result, after: Result, *, fallen: bool) -> Impact:
    """Weigh the change of a clause's result; `fallen`: it could not be asked since one that it needs does not hold."""
    change = _LOST if fallen and after is Result.NOT_RUN and before is not after else CHANGES.get((before, after), "")
    return COST.get((change, severity), Impact.NONE)


def of_surface(change: str, use: Use, *, holds: bool) -> Impact:
    """Weigh what is `gone` or `new` of an engine's surface."""
    return SURFACE[change, use, holds] if change == "gone" else Impact.ADDITIVE


def of_call(mode: str, outcome: str) -> Impact:
    """Weigh that a tool call now ends in another way."""
    return CALLS.get((mode, outcome), Impact.NONE)
