"""The clause catalogue: every checkable promise, as values (texts are in `clauses.yaml`)."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, Literal, TypeAlias, get_args

from msgspec import Struct
from msgspec.structs import replace

Level: TypeAlias = Literal["static", "hermetic", "long", "live", "server", "gate"]

ClauseSet: TypeAlias = Literal["2026-11", "2026-12", "2027-01"]
"""The name of a set of clauses, oldest first. A verdict names the set that it was given by.

Each set contains the one before it. All but the newest are frozen: no clause joins them, and none weighs more or less.
One that no longer exists has left all of them; reports of earlier versions show it.
"""
CLAUSE_SETS: Final[tuple[ClauseSet, ...]] = get_args(ClauseSet)
FIRST_SET, NEWEST_SET = CLAUSE_SETS[0], CLAUSE_SETS[-1]


class Severity(StrEnum):
    """What a failure breaks: the turn loop (`breaking`), a minor feature (`degraded`), or nothing (`informative`)."""

    BREAKING = "breaking"
    DEGRADED = "degraded"
    INFORMATIVE = "informative"


class Result(StrEnum):
    """The result of checking a clause."""

    PASS = "pass"
    FAIL = "fail"
    DEVIATES = "deviates"
    UNSUPPORTED = "unsupported"
    NOT_RUN = "not_run"


class Reason(StrEnum):
    """Why the environment prevented a clause from running. None of these says anything about the engine.

    `no_executable`: the release has no executable, can't be installed, or needs a newer Node.js to start.
    `no_recording`: no recording covers it. `contract`: the contract does not cover the release, or excludes the case.
    `machine`: the machine failed, for example because its disk is full. `wrapper`: the executable is a wrapper that
    breaks the sandbox or needs a package registry. `not_asked`: the probe ran on a version of turngate without this
    clause.
    """

    NO_EXECUTABLE = "no_executable"
    NO_RECORDING = "no_recording"
    CONTRACT = "contract"
    INTERRUPTED = "interrupted"
    MACHINE = "machine"
    WRAPPER = "wrapper"
    NOT_ASKED = "not_asked"


PASSING: Final = frozenset({Reason.MACHINE, Reason.INTERRUPTED})
"""The reasons that may be gone the next time."""


class Clause(Struct, frozen=True):
    """One promise: its text, why an orchestrator needs it, and its prerequisites.

    `orchestrator` says what an orchestrator can do about a failure, `contract` what a contract author can do, if
    anything. `deadline` is in seconds; a `baseline` allows no range and no deviation; `symptoms` are the words for
    failures that a deviation may excuse, and what each means. `since` is the first set of clauses that contains it.
    `every_turn`: it is about all turns of a probe, so a set whose clauses take more turns asks more of it.
    `severity_before`: a set in which the severity changed -> what it was in the sets before that one.
    """

    id: str
    sentence: str
    why: str
    orchestrator: str
    level: Level
    severity: Severity
    needs: tuple[str, ...] = ()
    baseline: bool = False
    deadline: float | None = None
    symptoms: Mapping[str, str] = {}
    contract: str = ""
    since: ClauseSet = FIRST_SET
    every_turn: bool = False
    severity_before: Mapping[ClauseSet, Severity] = {}

    def of_set(self, name: str) -> "Clause":
        """Return the clause with the severity that it has in a set."""
        was = (severity for changed, severity in sorted(self.severity_before.items()) if name < changed)
        return replace(self, severity=next(was, self.severity))


class Catalogue(dict[str, Clause]):
    """All clauses by id, in report order."""

    def at_level(self, *levels: str) -> tuple[Clause, ...]:
        """List the clauses of the given levels."""
        return tuple(clause for clause in self.values() if clause.level in levels)

    def of_set(self, name: str) -> "Catalogue":
        """Return the clauses of a set, with its severities; of one that a newer turngate has added, all."""
        return Catalogue({clause.id: clause.of_set(name) for clause in self.values() if clause.since <= name})

    def scope(self, clause_set: str, level: str) -> str:
        """Return what a verdict was given by: a set of clauses, and whether it includes those of level long, if any."""
        named = f"clause set {clause_set}"
        if level not in ("hermetic", "long"):
            return f"{named}, level {level}"
        is_partial = level != "long" and any(clause.level == "long" for clause in self.of_set(clause_set).values())
        return f"{named}, without long" if is_partial else named

    def set_of_recordings(self, results: Iterable[tuple[str, Result]]) -> ClauseSet:
        """Return the newest set of which recordings have answered a clause: about newer ones they say nothing.

        That a contract leaves something out is no answer of its recordings. A failure weighs what it does in the newest
        set.
        """
        silent = (Result.NOT_RUN, Result.UNSUPPORTED)
        answered = ((self[name], result) for name, result in results if name in self and result not in silent)
        sets = ((one.since, *(one.severity_before if result is Result.FAIL else ())) for one, result in answered)
        return max((name for of_one in sets for name in of_one), default=FIRST_SET)
