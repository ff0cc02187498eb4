"""The report of a probe: what it says of each release, with evidence."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from turngate import EngineSessionHandle
from turngate.contract.clauses import Level, Reason
from turngate.contract.evidence import Count, Seconds, Text
from turngate.contract.verdict import ClauseResult, FailOn, Verdict
from turngate.model import EngineInteractiveProfile, EngineResumeCapability
from turngate_probes.harness.resource_usage import Machine
from turngate_probes.journal.events import Origin, SkippedEngine
from turngate_probes.journal.tool_access import ToolAccess

ExitCode: TypeAlias = Literal[0, 1, 2, 3, 130]


class NotAsked(Struct, frozen=True, forbid_unknown_fields=True):
    """Why a release could not be asked anything."""

    reason: Reason
    what: Text
    hint: str


class ReleaseReport(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a probe says of a release.

    release: A key that no other release of this report has.
    version: null: not known.
    executable: null: none was run.
    verdict: null: only selected clauses were asked, which says nothing of the whole release.
    profile: null: not tested.
    capability: null: not tested.
    unverified: Sections of the contract that nobody has seen hold.
    failed: Why the question could not be asked.
    integrity: The checksum of the engine's own package, as its registry writes it; absent: it comes from none.
    durations: The seconds that each turn took, by its name as evidence has it.
    tool_access: The tools offered in each mode, and what becomes of a tool call; null: nobody looked.
    """

    release: Text
    engine: Text
    version: str | None
    executable: str | None
    source: Origin
    contract_version: Text
    note: str | None
    integrity: Text | UnsetType = UNSET
    verdict: Verdict | None
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
    clauses: tuple[ClauseResult, ...]


class PeakUsage(Struct, frozen=True, forbid_unknown_fields=True):
    """The most that the cache took on disk, and all processes in memory, at one time."""

    cache_bytes: Count
    memory_bytes: Count


class ProbeReport(
    Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="schema", tag="turngate.probe-report/2"
):
    """What a probe says of each release, with evidence.

    turngate: The version of turngate.
    fail_on: The mildest problem for which the exit code is 1.
    clauses: The only clauses that were asked; none: all of the level.
    skipped: Engines that were left out because they are not available where the probe ran.
    cores: How many cores the probe used.
    interrupted: The probe did not come to its end.
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
