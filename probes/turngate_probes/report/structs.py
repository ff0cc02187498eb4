"""The report of a probe: the results of each release, with evidence."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

from turngate import EngineSessionHandle
from turngate.contract.clauses import Level, Reason
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


class ReleaseReport(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The results of a release.

    release: A key that is unique in this report.
    version: null: unknown.
    executable: null: none was run.
    verdict: null: only selected clauses were tested, which says nothing about the whole release.
    profile: null: not tested.
    capability: null: not tested.
    unverified: Sections of the contract that were never observed.
    failed: Why the release could not be tested.
    integrity: The checksum of the engine's own package, in the registry's notation; absent: not from a registry.
    durations: The seconds that each turn took, by its name in the evidence.
    tool_access: The tools offered in each mode, and the outcome of a tool call; null: not observed.
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
