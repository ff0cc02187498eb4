"""The content of a report, the same in every format, whatever was tested: releases, or an orchestrator.

A probe, a gate and `turngate conform` say what they found in these terms, and every format is written from them.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

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
LEVELS: Final[dict[Judgement, RemarkLevel]] = {"failed": "error", "open": "error", "warned": "warning"}


class JudgedCase(Struct, frozen=True):
    """What is said of a clause of a release, a scenario or rule of an orchestrator, or another reason of a gate.

    subject: The release, or the engine that the orchestrator drove.
    about: What distinguishes it from everything else that is said of the subject.
    kind: What kind of failure or note it is.
    clause: The result that is judged.
    rule: The clause or rule that fails, or the kind of reason; None: nothing that the subject did.
    hint: Lines that add what was observed, what a rule demands, or what to do.
    at: The entry of the baseline that it is about.
    also: Other scenarios of an orchestrator in which the same was found.
    """

    subject: str
    about: str
    judgement: Judgement
    text: str
    kind: str = ""
    clause: ClauseResult | None = None
    rule: str | None = None
    hint: tuple[str, ...] = ()
    at: str = ""
    release: ReleaseReport | None = None
    also: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The clause or scenario, or what else it is about."""
        return self.clause.id if self.clause else self.about

    @property
    def level(self) -> RemarkLevel:
        """How much it matters, if it is remarked on."""
        return LEVELS.get(self.judgement, "note")

    @property
    def title(self) -> str:
        """The subject, and what is said of it."""
        return f"{self.subject} {self.about.removeprefix(f'{self.subject}: ')}".strip()

    @property
    def note(self) -> str:
        """The text of a case that does not fail."""
        return f"{self.kind}: {self.text}" if self.judgement == "warned" else self.text

    @property
    def place(self) -> Place | None:
        """The location in the user's repository that it belongs to."""
        return place_of(self.release, self.at)


class Suite(Struct, frozen=True):
    """The judged cases of a release; `times` are the seconds of each, by its name."""

    name: str
    seconds: float
    properties: Mapping[str, str]
    cases: tuple[JudgedCase, ...]
    times: Mapping[str, float]


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
    remarks: tuple[JudgedCase, ...]
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
