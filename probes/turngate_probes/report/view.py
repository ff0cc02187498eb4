"""The content of a report, the same in every format, whatever was tested: releases, or an orchestrator.

A probe, a gate and `turngate conform` say what they found in these terms, and every format is written from them.
"""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from turngate.contract.clauses import Severity
from turngate.contract.verdict import CallEvidence, ClauseResult, Evidence, TurnEvidence
from turngate_probes.report.reports import Action, NotAsked, ReleaseReport
from turngate_probes.report.source_locations import Place, place_of

ACTIONS = "What your orchestrator must do"
EDITS = "What to change in the contract"
CHANGE = "gate.change"  # the rule of what an orchestrator must change

# failed: the exit code is 1; open: it is 2 or 3; warned: a failure that leaves it 0; noted: a caveat, or stale
Judgement: TypeAlias = Literal["passed", "noted", "skipped", "warned", "failed", "open"]
RemarkLevel: TypeAlias = Literal["error", "warning", "note"]
# the signs and colours of a page
Sign: TypeAlias = Literal["pass", "fail", "deviates", "stale", "unsupported", "not_run", "excused"]
Kind: TypeAlias = Literal["probe", "gate", "conform"]
LEVELS: Final[dict[Judgement, RemarkLevel]] = {"failed": "error", "open": "error", "warned": "warning"}


class Mark(Struct, frozen=True):
    """A result in the matrix: its name, its sign, and what it means."""

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
    state: The name of its mark in the matrix; empty: it has no cell there.
    detail: What its cell says, with the level or expectation that it was tested with in `context`.
    blocks: The evidence of an orchestrator.
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
    state: str = ""
    detail: str = ""
    context: str = ""
    blocks: tuple[Block, ...] = ()

    @property
    def name(self) -> str:
        """The clause or scenario, or what else it is about."""
        return self.clause.id if self.clause else self.about

    @property
    def action(self) -> str:
        """What an orchestrator must do about a known caveat."""
        return self.clause.action if self.clause else ""

    @property
    def evidence(self) -> tuple[Shown, ...]:
        """What was observed."""
        return (*self.blocks, *(item for item in self._evidence if not isinstance(item, str)))

    @property
    def names(self) -> tuple[str, ...]:
        """The turns that a pass rests on."""
        return tuple(name for name in self._evidence if isinstance(name, str))

    @property
    def _evidence(self) -> tuple[Evidence, ...]:
        return self.clause.evidence if self.clause else ()

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


class Row(Struct, frozen=True):
    """A clause or a scenario, with a cell for each column (None: not selected), and what to do if it fails."""

    n: int
    id: str
    short: str
    severity: Severity
    sentence: str
    why: str
    cells: tuple[JudgedCase | None, ...]
    advice: tuple[str, ...] = ()


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
    remaining: What a gate says if there is nothing to do, or possibly more; which releases of a probe need guards.
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
