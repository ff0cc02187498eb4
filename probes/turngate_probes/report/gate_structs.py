"""The report of a gate: whether you can upgrade from one release to another, and what differs."""

from enum import StrEnum
from typing import Annotated, Literal

from msgspec import Meta, Struct

from turngate.contract.evidence import Count, Seconds, Text
from turngate.contract.verdict import Verdict
from turngate_probes.journal.events import Origin
from turngate_probes.report.actions import Action
from turngate_probes.report.structs import ExitCode, NotAsked, ProbeReport, ReleaseReport


class GateOutcome(StrEnum):
    """What a gate says of the newer release."""

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

    before: What the older release shows of the subject; null: nothing.
    clause: The clause by which a baseline excuses it.
    """

    kind: Literal["clause", "option", "event", "key", "tool", "call", "claim", "deviation"]
    subject: Text
    before: str | None
    after: str | None
    impact: Impact
    detail: str
    clause: str | None


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    """An expected failure: what a baseline excuses, its place in the file (`at`), and what the entry does here."""

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
    """What speaks against the newer release, or was not answered, in one sentence.

    kind: One of clause, stale, caveat, the kind of a difference, baseline, unanswered, crashed, interrupted.
    about: What distinguishes it from all others, such as the id of a clause.
    clause: The clause that it is about.
    at: The entry of the baseline that it is about.
    """

    kind: str
    about: str
    text: Text
    clause: str | None = None
    at: str = ""


class Excuse(Struct, frozen=True, forbid_unknown_fields=True):
    """What would speak against the newer release, and why the baseline expects it."""

    reason: GateReason
    why: str

    @property
    def text(self) -> str:
        """The excuse in one sentence."""
        return f"excused by the baseline ({self.why}): {self.reason.text}"


class Ruling(Struct, frozen=True, forbid_unknown_fields=True):
    """The outcome, what speaks against the newer release, and what the baseline excuses."""

    outcome: GateOutcome
    reasons: tuple[GateReason, ...]
    excused: tuple[Excuse, ...] = ()


class GatedRelease(Struct, frozen=True, forbid_unknown_fields=True):
    """What became of a release as a whole.

    verdict: null: only selected clauses were asked.
    failed: Why it could not be asked.
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
    reasons: What speaks against the upgrade, or was not answered.
    actions: What your orchestrator must do, a line for each caveat or change; new ones first.
    ruling: The outcome, and the reasons with what each is about.
    differences: The worst first.
    clauses: The only clauses that were asked; none: all.
    probe: The older and the newer release; the newer one with the clauses asked of both.
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
        """The newer release, which alone is judged; the older one is there to be compared with."""
        return self.probe.releases[1]
