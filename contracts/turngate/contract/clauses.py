"""The clause catalogue: every checkable promise, as values (the texts are in `clauses.yaml`)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias


class Severity(StrEnum):
    """What a failure costs: the turn loop (`breaking`), a minor feature (`degraded`), or nothing (`informative`)."""

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
    """Why the environment kept a clause from being run; none of these says anything about the engine.

    `no_executable`: the release has no executable, or can't be installed. `no_recording`: the recordings don't show it.
    `contract`: the contract does not cover the release, or rules the case out. `machine`: the machine failed, for
    example with a full disk. `not_asked`: the probe ran on another version of turngate, which did not know the clause.
    """

    NO_EXECUTABLE = "no_executable"
    NO_RECORDING = "no_recording"
    CONTRACT = "contract"
    INTERRUPTED = "interrupted"
    MACHINE = "machine"
    NOT_ASKED = "not_asked"


Level: TypeAlias = Literal["static", "hermetic", "live", "server", "gate"]


@dataclass(frozen=True, slots=True)
class Clause:
    """One promise: what it says, why an orchestrator needs it, and what must hold for it to be checked.

    `deadline` is in seconds; a `baseline` allows neither a range nor a deviation.
    """

    id: str
    sentence: str
    why: str
    level: Level
    severity: Severity
    needs: tuple[str, ...] = ()
    baseline: bool = False
    deadline: float | None = None


class Catalogue(dict[str, Clause]):
    """All clauses by their ids, in the order in which reports list them."""

    def at_level(self, *levels: str) -> tuple[Clause, ...]:
        """List the clauses of the given levels."""
        return tuple(clause for clause in self.values() if clause.level in levels)
