"""The reports of a probe and of a gate: results with evidence, differences, and what an orchestrator must do."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field

from turngate import EngineSessionHandle
from turngate.contract.clauses import FIRST_SET, Level, Reason, Result
from turngate.contract.verdict import ClauseResult, Count, FailOn, Seconds, Text, Verdict
from turngate.model import EngineInteractiveProfile, EngineResumeCapability
from turngate_probes.harness.resource_usage import Machine
from turngate_probes.journal.events import Origin, SkippedEngine
from turngate_probes.journal.tool_access import ToolAccess

ExitCode: TypeAlias = Literal[0, 1, 2, 3, 130]


class NotAsked(Struct, frozen=True, forbid_unknown_fields=True):
    """Why a release could not be tested."""

    reason: Reason
    what: Text
    hint: str


class UserSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The user's settings that the turns of a release had, which the contract lists, and what they change.

    copied: Their names, as `FILE: KEY, KEY` or a variable; their values are not shown.
    without: The results without them, of clauses that failed or deviated.
    """

    copied: tuple[Text, ...]
    without: Mapping[Text, Result] = {}


class TestedModels(Struct, frozen=True, forbid_unknown_fields=True):
    """The models that a release was tested with.

    own: The model that the release takes by itself, as its first turn asked for it; null: it takes none, or no
        turn asked.
    depends_on: What decides which model that is; null: the release takes none by itself.
    asked: The model that turns asked for; null: no option chooses one.
    none_because: Why the release takes none by itself, if the contract says so.
    """

    own: str | None
    depends_on: str | None
    asked: str | None
    none_because: str | UnsetType = UNSET

    @property
    def ordinary(self) -> str | None:
        """The model of turns that don't choose one."""
        return self.own if self.depends_on else self.asked


class ReleaseReport(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The results of a release.

    release: A key that is unique in this report.
    version: null: unknown.
    executable: null: none was run.
    verdict: null: only selected clauses were tested, which says nothing about the whole release.
    clause_set: The set of clauses that the verdict was given by. It says nothing about newer clauses.
    level: The level at which it was tested; only level long asks the set's clauses about long sessions.
    profile: null: not tested.
    capability: null: not tested.
    unverified: Sections of the contract that were never observed.
    failed: Why the release could not be tested.
    integrity: The checksum of the engine's own package, in the registry's notation; absent: not from a registry.
    output: The output mode; absent: the engine's default one.
    durations: The seconds that each turn took, by its name in the evidence.
    tool_access: The tools offered in each mode, and the outcome of a tool call; null: not observed.
    settings: The user's settings that it was tested with; absent: they were not asked for.
    """

    release: Text
    engine: Text
    version: str | None
    executable: str | None
    source: Origin
    contract_version: Text
    note: str | None
    integrity: Text | UnsetType = UNSET
    output: Text | UnsetType = UNSET
    verdict: Verdict | None
    clause_set: Text = FIRST_SET
    level: Level = "hermetic"
    profile: EngineInteractiveProfile | None
    capability: EngineResumeCapability | None
    handle: EngineSessionHandle | None
    seconds: Seconds
    engine_seconds: Seconds
    turns: Count
    durations: Mapping[str, Seconds] = {}
    unverified: tuple[Text, ...]
    failed: NotAsked | None
    tool_access: ToolAccess | None
    settings: UserSettings | UnsetType = UNSET
    models: TestedModels | UnsetType = UNSET
    clauses: tuple[ClauseResult, ...]


class PeakUsage(Struct, frozen=True, forbid_unknown_fields=True):
    """The peak size of the cache on disk, and of all processes in memory."""

    cache_bytes: Count
    memory_bytes: Count


class ProbeReport(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="schema", tag="turngate.probe-report/2"
):
    """The results of each release, with evidence.

    turngate: The version of turngate.
    fail_on: The mildest problem for which the exit code is 1.
    clauses: The selected clauses; empty: all of the level.
    skipped: Engines that were skipped because they are not available on this machine.
    cores: The number of CPU cores.
    interrupted: Whether the probe ended early.
    seconds: Wall time of the whole probe.
    engine_seconds: CPU time of all engines.
    """

    turngate: Text
    started_at: Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
    machine: Machine
    level: Level
    fail_on: FailOn
    clauses: tuple[Text, ...] = ()
    skipped: tuple[SkippedEngine, ...] | UnsetType = UNSET
    cores: Annotated[int, Meta(ge=1)]
    interrupted: bool
    seconds: Seconds
    engine_seconds: Seconds
    peak_usage: PeakUsage | UnsetType = UNSET
    exit_code: ExitCode
    releases: tuple[ReleaseReport, ...]


class Action(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that an orchestrator must do.

    kind: Why: a known caveat, or a change from the older release of a gate.
    about: The clause, or what else changed.
    releases: The releases that need it.
    new: Whether the older release of a gate does not need it.
    """

    kind: Literal["caveat", "change"]
    about: Text
    text: Text
    releases: tuple[Text, ...]
    new: bool = False

    @property
    def title(self) -> str:
        """The kind of the action, and what it is about."""
        kind = self.kind if self.kind == "change" else f"{'new' if self.new else 'known'} caveat"
        return f"{kind}: {self.about}"


def known_caveats(releases: Iterable[ReleaseReport]) -> tuple[Action, ...]:
    """Return what to do about the known caveats of releases, once for a caveat that several releases share."""
    having: dict[tuple[str, str], list[str]] = {}
    for release in releases:
        for clause in release.clauses:
            if clause.action:
                having.setdefault((clause.id, clause.action), []).append(release.release)
    return tuple(Action("caveat", clause, text, tuple(names)) for (clause, text), names in having.items())


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
    began: The release between the two in which it began, or the first and the last of several that may have brought
        it; absent: unknown.
    """

    kind: Literal[
        "clause",
        "option",
        "command",
        "protocol",
        "session",
        "feature",
        "variable",
        "listed-model",
        "event",
        "key",
        "model",
        "tool",
        "call",
        "claim",
        "deviation",
    ]
    subject: Text
    before: str | None
    after: str | None
    impact: Impact
    detail: str
    clause: str | None
    began: str | UnsetType = UNSET

    @property
    def told(self) -> str:
        """The detail, and where it began."""
        return self.detail if self.began is UNSET else f"{self.detail} (since {self.began})"


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


class GateDecision(Struct, frozen=True, forbid_unknown_fields=True):
    """The outcome, the reasons for it, and what the baseline excuses."""

    outcome: GateOutcome
    reasons: tuple[GateReason, ...]
    excused: tuple[Excuse, ...] = ()


class GatedRelease(Struct, frozen=True, forbid_unknown_fields=True):
    """The result of a release as a whole.

    verdict: null: only selected clauses were tested.
    failed: Why it could not be tested.
    clause_set: The set of clauses that the verdict was given by.
    level: The level at which it was tested; only level long asks the set's clauses about long sessions.
    """

    release: Text
    version: str | None
    source: Origin
    executable: str | None
    verdict: Verdict | None
    note: str | None
    failed: NotAsked | None
    clause_set: Text = FIRST_SET
    level: Level = "hermetic"


class GateReport(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="schema", tag="turngate.gate-report/3"
):
    """Whether you can upgrade from one release to another, and what differs.

    changes_required: Whether a green upgrade requires changes to your orchestrator; null: not known, or not green.
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
    decision: GateDecision = field(name="ruling")
    counts: dict[Impact, Count]
    differences: tuple[Difference, ...]
    baseline: Baseline
    seconds: Seconds
    clauses: tuple[Text, ...]
    probe: ProbeReport

    @property
    def newer(self) -> ReleaseReport:
        """The newer release. Only this one is judged; the older one is the comparison."""
        return self.probe.releases[1]
