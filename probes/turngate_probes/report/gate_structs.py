"""The report of a gate: whether you can upgrade from one release to another, and what differs."""

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta, Struct

from turngate.contract.verdict import Count, Seconds, Text, Verdict
from turngate_probes.journal.events import Origin
from turngate_probes.report.actions import Action
from turngate_probes.report.structs import ExitCode, NotAsked, ProbeReport, ReleaseReport


class GateOutcome(StrEnum):
    """What a gate says about the newer release."""

    PASS = "pass"
    FAIL = "fail"
    UNANSWERED = "unanswered"
    CRASHED = "crashed"
    INTERRUPTED = "interrupted"


class Impact(StrEnum):
    """What a difference costs an orchestrator, worst first."""

    BREAKING = "breaking"
    DEGRADED = "degraded"
    ADDITIVE = "additive"
    NONE = "none"


class Difference(Struct, frozen=True, forbid_unknown_fields=True):
    """One difference between two releases.

    before: What the older release shows; null: nothing.
    clause: The clause that a baseline names to excuse it.
    """

    kind: Literal["clause", "option", "event", "key", "tool", "call", "claim", "deviation"]
    subject: Text
    before: str | None
    after: str | None
    impact: Impact
    detail: str
    clause: str | None


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """An expected failure: what a baseline excuses, its line in the file (`at`), and what the entry does here."""

    clause: str
    since: str | None
    until: str | None
    reason: str
    at: str
    state: Literal["excuses", "passes", "not_asked"] = "not_asked"


class Baseline(Struct, frozen=True, forbid_unknown_fields=True):
    """The expected failures of the newer release."""

    file: str | None
    entries: tuple[Entry, ...]


class GateReason(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Why the newer release fails the gate, or what could not be tested, in one sentence.

    kind: One of clause, stale, caveat, the kind of a difference, baseline, unanswered, crashed, interrupted.
    about: What distinguishes it from all other reasons, such as the id of a clause.
    clause: The clause that it is about.
    at: The entry of the baseline that it is about.
    """

    kind: str
    about: str
    text: Text
    clause: str | None = None
    at: str = ""


class Excuse(Struct, frozen=True, forbid_unknown_fields=True):
    """What would fail the newer release, and why the baseline expects it."""

    reason: GateReason
    why: str

    @property
    def text(self) -> str:
        """The excuse in one sentence."""
        return f"excused by the baseline ({self.why}): {self.reason.text}"


class Ruling(Struct, frozen=True, forbid_unknown_fields=True):
    """The outcome, the reasons for it, and what the baseline excuses."""

    outcome: GateOutcome
    reasons: tuple[GateReason, ...]
    excused: tuple[Excuse, ...] = ()


class GatedRelease(Struct, frozen=True, forbid_unknown_fields=True):
    """The result of a release as a whole.

    verdict: null: only selected clauses were tested.
    failed: Why it could not be tested.
    """

    release: Text
    version: str | None
    source: Origin
    executable: str | None
    verdict: Verdict | None
    note: str | None
    failed: NotAsked | None


class GateReport(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="schema", tag="turngate.gate-report/2",
    rename={"changes_required": "changes-required"},
):  # fmt: skip
    """Whether you can upgrade from one release to another, and what differs.

    changes-required: Whether a green upgrade requires changes to your orchestrator; null: not known, or not green.
    reasons: Why the upgrade fails the gate, or what could not be tested.
    actions: What your orchestrator must do: one entry for each caveat or change, new ones first.
    ruling: The outcome, and the subject of each reason.
    differences: The worst first.
    clauses: The selected clauses; empty: all.
    probe: The older and the newer release; the newer one includes the clauses that test both releases.
    """

    turngate: Text
    started_at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    engine: Text
    old: GatedRelease
    new: GatedRelease
    outcome: GateOutcome
    exit_code: ExitCode
    changes_required: bool | None
    reasons: tuple[Text, ...]
    actions: tuple[Action, ...]
    ruling: Ruling
    counts: dict[Impact, Count]
    differences: tuple[Difference, ...]
    baseline: Baseline
    seconds: Seconds
    clauses: tuple[Text, ...]
    probe: ProbeReport

    @property
    def judged(self) -> ReleaseReport:
        """The newer release. Only this one is judged; the older one is the comparison."""
        return self.probe.releases[1]
