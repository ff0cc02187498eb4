"""The content of a report, the same in every format, whatever was tested: releases, or an orchestrator.

A probe, a gate and `turngate conform` say what they found in these terms, and every format is written from them.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from turngate.contract.clauses import Severity
from turngate.contract.verdict import CallEvidence, ClauseResult, TurnEvidence
from turngate_probes.report.reports import Action, NotAsked, ReleaseReport
from turngate_probes.report.source_locations import Place, place_of

MINUTE, TEN = 60, 10
MOST_NAMED = 4
EXPLAIN = "turngate explain"
ACTIONS = "What your orchestrator must do"
EDITS = "What to change in the contract"

# failed: the exit code is 1; open: it is 2 or 3; warned: a failure that leaves it 0; noted: a caveat, or stale
Judgement: TypeAlias = Literal["passed", "noted", "skipped", "warned", "failed", "open"]
RemarkLevel: TypeAlias = Literal["error", "warning", "note"]
# the signs and colours of a page
Sign: TypeAlias = Literal["pass", "fail", "deviates", "stale", "unsupported", "not_run", "excused"]
Kind: TypeAlias = Literal["probe", "gate", "conform"]


class JudgedCase(Struct, frozen=True):
    """A clause of a release, a scenario of an orchestrator, or another reason of a gate, as test reports judge it.

    `kind` says what kind of failure it is; `clause` and `hint` add what was observed.
    """

    name: str
    judgement: Judgement
    text: str
    kind: str = ""
    clause: ClauseResult | None = None
    hint: tuple[str, ...] = ()

    @property
    def note(self) -> str:
        """The remark on a case that does not fail."""
        return f"{self.kind}: {self.text}" if self.judgement == "warned" else self.text


class Suite(Struct, frozen=True):
    """The judged cases of a release; `times` are the seconds of each, by its name."""

    name: str
    seconds: float
    properties: Mapping[str, str]
    cases: tuple[JudgedCase, ...]
    times: Mapping[str, float]


class Remark(Struct, frozen=True):
    """One remark on a release or an orchestrator; `about` distinguishes it from all other remarks on that subject.

    `subject` is the release, or the engine that the orchestrator drove. `rule` is the clause or rule that fails, or the
    kind of reason (None: nothing that the subject did), and `promise` is what an orchestrator's rule demands; `at` is
    the entry of the baseline that it is about; `result` is that of a clause that failed; `also` names the other
    scenarios of an orchestrator in which the same was found.
    """

    subject: str
    level: RemarkLevel
    about: str
    text: str
    rule: str | None = None
    at: str = ""
    result: ClauseResult | None = None
    release: ReleaseReport | None = None
    promise: str = ""
    also: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The subject, and what the remark is about."""
        return f"{self.subject} {self.about.removeprefix(f'{self.subject}: ')}".strip()

    @property
    def place(self) -> Place | None:
        """The location in the user's repository that the remark belongs to."""
        return place_of(self.release, self.at)


class Mark(Struct, frozen=True):
    """A result of a cell: its name, its sign, and what it means."""

    name: str
    sign: Sign
    label: str
    meaning: str


class Count(Struct, frozen=True):
    """How many results have a word."""

    word: str
    count: int
    sign: Sign


class Fact(Struct, frozen=True):
    """A named fact, in lines; `code` is a value in front of it."""

    name: str
    lines: tuple[str, ...]
    code: str = ""


class Block(Struct, frozen=True):
    """Evidence of an orchestrator: a broken rule, or a call of the engine with its arguments."""

    title: str
    about: str
    text: tuple[str, ...] = ()
    argv: tuple[str, ...] | None = None
    facts: tuple[Fact, ...] = ()


Shown: TypeAlias = TurnEvidence | CallEvidence | Block


class Cell(Struct, frozen=True):
    """The result of one row for one column, with its evidence; `names` are turns that a pass rests on."""

    mark: Mark
    detail: str
    about: str = ""
    action: str = ""
    evidence: tuple[Shown, ...] = ()
    names: tuple[str, ...] = ()


class Row(Struct, frozen=True):
    """A clause or a scenario, with a cell for each column (None: not selected), and what to do if it fails."""

    n: int
    id: str
    short: str
    severity: Severity
    sentence: str
    why: str
    cells: tuple[Cell | None, ...]
    advice: str = ""


class RowFamily(Struct, frozen=True):
    """Rows that belong together."""

    name: str
    rows: tuple[Row, ...]


class Column(Struct, frozen=True):
    """A release: its verdict in a word, and with what qualifies it; facts about it, and why it could not be tested."""

    n: int
    engine: str
    version: str
    verdict: str
    summary: str
    sign: Sign
    facts: tuple[Fact, ...]
    failed: NotAsked | None = None

    @property
    def title(self) -> str:
        """The engine and the version."""
        return f"{self.engine} {self.version}"


class View(Struct, frozen=True, kw_only=True):
    """The content of a report in every format, whatever was tested.

    report: What is written as JSON.
    outcome: The verdict on the whole, in a word; empty: a probe has none.
    meaning: What the exit code means.
    meta: How it was tested, in parts.
    counts: The number of results with each word, worst first.
    remarks: What is wrong and what is excused, most severe first; for a gate, only of the newer release.
    actions: What an orchestrator must do: one entry for each known caveat, and for each change of a gate.
    remaining: What a gate says if there is nothing to do, or possibly more.
    suites: What test reports show; for a gate, only the newer release.
    marks: The results that a cell may have.
    """

    kind: Kind
    report: Struct
    turngate: str
    started_at: str
    seconds: float
    exit_code: int
    interrupted: bool
    outcome: str = ""
    headline: str
    meaning: str
    meta: tuple[str, ...]
    counts: tuple[Count, ...]
    remarks: tuple[Remark, ...]
    actions: tuple[Action, ...] = ()
    remaining: str = ""
    suites: tuple[Suite, ...]
    marks: tuple[Mark, ...]
    columns: tuple[Column, ...]
    families: tuple[RowFamily, ...]


def named(releases: Sequence[str]) -> str:
    """Return the names of releases, shortened to a few if there are many."""
    more = len(releases) - MOST_NAMED
    return ", ".join(releases[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def duration(seconds: float) -> str:
    """Return a readable duration: `0.4 s`, `12 s`, `3 min 3 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < MINUTE:
        return f"{seconds:.1f} s" if whole < TEN else f"{whole} s"
    minutes, rest = divmod(whole, MINUTE)
    hours, minutes = divmod(minutes, MINUTE)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
