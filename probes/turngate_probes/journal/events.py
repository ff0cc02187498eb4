"""The events of a probe, one struct per kind: what was planned, observed and judged.

`event` names the kind on disk. `at` (ISO 8601, UTC, milliseconds) is set by the journal.
"""

from typing import Final, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType, field, structs

from turngate import Ended, EngineSessionHandle, Outcome
from turngate.contract.clauses import FIRST_SET, Level, Reason, Result
from turngate.contract.verdict import ClauseResult, FailOn, OutputExcerpt, RequestExcerpt, Verdict
from turngate.model import EngineInteractiveProfile, EngineResumeCapability
from turngate_probes.harness.resource_usage import Machine

Schema: TypeAlias = Literal["turngate.probe-events/2"]
SCHEMA: Final[Schema] = "turngate.probe-events/2"

Origin: TypeAlias = Literal["path", "npm", "pypi", "recordings", "none"]
"""Where an executable comes from; `none`: there is none, and no registry has its releases."""


class _Event(Struct, frozen=True, kw_only=True, tag_field="event"):
    at: str = ""


class SkippedEngine(Struct, frozen=True, forbid_unknown_fields=True):
    """An engine that was skipped because it is not available here; `why` says what is missing."""

    engine: str
    why: str


class ProbeStarted(_Event, frozen=True, tag="probe.started"):
    """A probe starts; `clauses` are the selected ones (empty: all of the level), `skipped` the unavailable engines.

    `clause_set` is the newest set of clauses that this turngate knows. All of them count for a verdict. `resume` and
    `server` are what these options asked for.
    """

    turngate: str
    machine: Machine
    level: Level
    fail_on: FailOn
    cores: int
    clauses: tuple[str, ...] = ()
    clause_set: str = FIRST_SET
    skipped: tuple[SkippedEngine, ...] | UnsetType = UNSET
    resume: bool = False
    server: tuple[str, ...] = ()
    schema: Schema = SCHEMA


class ProbeFinished(_Event, frozen=True, tag="probe.finished"):
    """A probe has ended."""

    seconds: float
    engine_seconds: float
    interrupted: bool


class MatrixPlanned(_Event, frozen=True, tag="matrix.planned"):
    """The size of many probes together: for listeners, never in a journal. A later one replaces it.

    `at_most` says that fewer may be enough. `last_turns` are the turns of the last one if it is shorter (0: it is not).
    """

    releases: int
    kept: int
    unit: str = "releases"
    at_most: bool = False
    last_turns: int = 0


class _ReleaseEvent(_Event, frozen=True):
    release: str


class ReleasePlanned(_ReleaseEvent, frozen=True, tag="release.planned"):
    """A release will be probed; `release` is its key in later events, `turns` the number of expected turns.

    `integrity` is the checksum of the engine's own package, in its registry's notation, and `output` an output mode
    other than the default one. `waits` says how long its cases wait at most, and what for. `settings` names the user's
    settings and variables that its turns have, where these were asked for. `asked_model` is the model that turns ask
    for, `default_model` says what decides which one the release takes by itself, if turns run with that, and
    `no_default_model` why it takes none.
    """

    engine: str
    version: str | None
    executable: str | None
    source: Origin
    contract_version: str
    turns: int
    note: str | None
    integrity: str | UnsetType = UNSET
    output: str | UnsetType = UNSET
    waits: str | UnsetType = UNSET
    settings: tuple[str, ...] | UnsetType = UNSET
    asked_model: str | UnsetType = UNSET
    default_model: str | UnsetType = UNSET
    no_default_model: str | UnsetType = UNSET


class WithoutSettings(_ReleaseEvent, frozen=True, tag="settings.left_out"):
    """What clauses that failed or deviated with the user's settings show without them."""

    results: dict[str, Result]


class InstallProgress(_ReleaseEvent, frozen=True, tag="install.progress"):
    """The progress of an installation."""

    text: str


class ReleaseFailed(_ReleaseEvent, frozen=True, tag="release.failed"):
    """The release could not be probed."""

    reason: Reason
    what: str
    hint: str


class ReleaseFinished(_ReleaseEvent, frozen=True, tag="release.finished"):
    """The probe of a release is complete.

    `verdict` is None if only selected clauses were tested, `profile` and `capability` if resuming was not. `hosts` are
    those beyond this machine that the engine tried to reach, registries as `<package-registry>`.
    """

    verdict: Verdict | None
    profile: EngineInteractiveProfile | None
    capability: EngineResumeCapability | None
    handle: EngineSessionHandle | None
    seconds: float
    engine_seconds: float
    turns: int
    unverified: tuple[str, ...]
    hosts: tuple[str, ...] | UnsetType = UNSET


class _StepEvent(_ReleaseEvent, frozen=True, omit_defaults=True):
    case: str
    step: str

    @property
    def name(self) -> str:
        """The name that evidence uses for this event."""
        return f"{self.case}/{self.step}"


class _CommandEvent(_StepEvent, frozen=True):
    argv: tuple[str, ...]
    exit_code: int | None
    ended: Ended
    cpu_seconds: float
    stdout: OutputExcerpt
    stderr: OutputExcerpt


class PageEvent(_CommandEvent, frozen=True, tag="page"):
    """The output of a plain command.

    `names` are those on a help page, `options` its options with their values. `listed` is what a listing shows: for
    each kind of thing the names, each with a value that may be empty.
    """

    names: tuple[str, ...] | None = None
    options: tuple[str, ...] | None = None
    listed: dict[str, dict[str, str]] | None = None


class TurnEvent(_CommandEvent, frozen=True, tag="turn"):
    """An observed turn.

    `kinds` are those of its records, `paths` the key paths in them, `types` the JSON types of the values there, in the
    same order (None: not examined). `headers` are the names in its requests to the model. `acted` says whether the
    tool that the model asked for did its work, `reported` what the engine reported to the model about it. `searched`
    are the tools that the model can only find by a search.
    """

    cwd: str
    seconds: float
    requests: tuple[RequestExcerpt, ...] | None
    handle: str | None
    outcome: Outcome
    failure_reason: str | None
    leftovers: tuple[str, ...]
    request_count: int = 0
    acted: bool | None = None
    reported: str | None = field(default=None, name="told")
    kinds: tuple[str, ...] | None = None
    paths: tuple[str, ...] | None = None
    types: tuple[str, ...] | None = None
    searched: tuple[str, ...] = ()
    headers: tuple[str, ...] | None = None


class CallEvent(_StepEvent, frozen=True, tag="call"):
    """A request to the reference server and its answer, both as JSON."""

    method: str
    path: str
    status: int
    sent: str | None
    answer: str


class ClauseEvent(
    ClauseResult, frozen=True, kw_only=True, forbid_unknown_fields=False, tag_field="event", tag="clause"
):
    """A clause was judged."""

    release: str
    at: str = ""

    @classmethod
    def about(cls, release: str, result: ClauseResult) -> "ClauseEvent":
        """Describe a result."""
        return cls(release=release, **structs.asdict(result))

    def clause_result(self) -> ClauseResult:
        """Return the result without the release."""
        return ClauseResult(*(getattr(self, name) for name in ClauseResult.__struct_fields__))


ObservedEvent: TypeAlias = TurnEvent | PageEvent | CallEvent
ReleaseEvent: TypeAlias = (
    ReleasePlanned | InstallProgress | ObservedEvent | ClauseEvent | WithoutSettings | ReleaseFinished | ReleaseFailed
)
Event: TypeAlias = ProbeStarted | ReleaseEvent | ProbeFinished | MatrixPlanned
