"""The clause catalogue: every checkable promise, as values (the texts are in `clauses.yaml`)."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias


class Severity(StrEnum):
    """What a miss costs: the turn loop (`breaking`), comfort (`degraded`), or nothing (`informative`)."""

    BREAKING = "breaking"
    DEGRADED = "degraded"
    INFORMATIVE = "informative"


class Result(StrEnum):
    """What checking a clause came to."""

    PASS = "pass"
    FAIL = "fail"
    DEVIATES = "deviates"
    UNSUPPORTED = "unsupported"
    NOT_RUN = "not_run"


class Reason(StrEnum):
    """What of the environment keeps a clause from being run; each says nothing about the engine.

    `no_executable`: there is none of the release, or it can't be installed. `no_recording`: the recordings don't
    show it. `contract`: it does not cover the release, or does not let the case be played. `machine`: the machine
    failed, such as by a full disk. `not_asked`: the probe, of another turngate, did not know the clause.
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

    `deadline` is in seconds; a `baseline` takes neither range nor deviation.
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
