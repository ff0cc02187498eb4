"""Derives the verdict, resume capability and profile of a release from clause results."""

from abc import ABC
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias

from msgspec import Meta, Struct, ValidationError

from turngate.contract.clauses import Clause, Level, Reason, Result, Severity
from turngate.contract.engine_contract import EngineContract
from turngate.decoding import convert
from turngate.model import Ended, EngineInteractiveProfile, EngineResumeCapability

Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0)]
FALLEN = (Result.FAIL, Result.UNSUPPORTED)
# what is said of a clause that another one needs
BECAME = {Result.FAIL: "failed", Result.NOT_RUN: "was not run", Result.UNSUPPORTED: "is unsupported"}
RESUMABLE_NEEDS = ("handle.present", "handle.place", "resume.", "server.context-carried")


class OutputExcerpt(Struct, frozen=True, forbid_unknown_fields=True):
    """A stream of a process: its size, and its start and end."""

    bytes: Count
    excerpt: str


class RequestExcerpt(Struct, frozen=True, forbid_unknown_fields=True):
    """A request to the model backend; `protocol` null: an unknown path, `bytes` null: not in the recording."""

    method: str
    protocol: str | None
    model: str | None
    nonces: tuple[str, ...]
    tools: tuple[str, ...]
    bytes: Count | None
    reply: str
    path: str
    last_user_text: str | None


class TurnEvidence(Struct, frozen=True, forbid_unknown_fields=True):
    """How a turn ended, its output and its requests; `requests` null: there was no backend."""

    turn: Text
    argv: tuple[str, ...]
    exit_code: int | None
    ended: Ended
    stdout: OutputExcerpt
    stderr: OutputExcerpt
    requests: tuple[RequestExcerpt, ...] | None
    requests_seen: Count | None


class CallEvidence(Struct, frozen=True, forbid_unknown_fields=True):
    """A request to the reference server and its answer, both as JSON; `sent` null: there was no body."""

    call: Text
    method: str
    path: str
    status: int
    sent: str | None
    answer: str


# msgspec can't distinguish untagged structs, so it gets a separate class and calls `decode_hook`
if TYPE_CHECKING:
    Evidence: TypeAlias = str | TurnEvidence | CallEvidence
else:

    class Evidence(ABC):  # noqa: B024 - it has no methods of its own
        """The name of a turn or call, or its observation."""

    Evidence.register(str)
    Evidence.register(TurnEvidence)
    Evidence.register(CallEvidence)


def decode_hook(kind: Any, value: Any) -> Any:
    """Read evidence; the `dec_hook` for structs that contain clause results."""
    if kind is not Evidence:
        raise NotImplementedError(kind)
    shape = CallEvidence if isinstance(value, dict) and "call" in value else TurnEvidence
    try:
        return convert(value, Text if isinstance(value, str) else shape)
    except ValidationError as wrong:
        raise ValueError(str(wrong)) from wrong  # msgspec adds the path to a ValueError


class Verdict(StrEnum):
    """The verdict of a probe on a release, best first.

    compatible: The release does what its contract says, including declared deviations ("known caveats").
    degraded: A non-breaking clause failed in a way that the contract does not declare.
    unanswered: A breaking clause could not run.
    broken: A breaking clause failed in a way that the contract does not declare.
    """

    COMPATIBLE = "compatible"
    DEGRADED = "degraded"
    UNANSWERED = "unanswered"
    BROKEN = "broken"


class FailOn(StrEnum):
    """The mildest problem that makes a probe fail. Each value includes those before it.

    broken: A broken release.
    degraded: A degraded release, or a declared deviation that no longer occurs.
    caveat: A release with a known caveat.
    """

    BROKEN = "broken"
    DEGRADED = "degraded"
    CAVEAT = "caveat"


class Finding(Struct, frozen=True):
    """The outcome of one check: a pass, or a failure and its symptoms; `evidence` lists names of turns."""

    ok: bool
    detail: str
    symptoms: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()


class ClauseResult(Struct, frozen=True, forbid_unknown_fields=True):
    """The result of one clause for one release; `stale` marks a declared deviation that did not occur.

    A clause that was not run gives the cause: the clauses that it `needs`, or a `reason` in the environment. `action`
    is what an orchestrator must do about a known caveat, even if it occurs only now and then and did not this time.
    It is empty for every other result.
    """

    id: Annotated[str, Meta(pattern=r"^[a-z-]+\.[a-z-]+$")]
    level: Level
    severity: Severity
    result: Result
    detail: str
    stale: bool
    needs: tuple[str, ...]
    reason: Reason | None
    evidence: tuple[Evidence, ...]
    action: str

    @classmethod
    def of(
        cls,
        clause: Clause,
        result: Result,
        detail: str,
        evidence: Sequence[str] = (),
        *,
        stale: bool = False,
        needs: Sequence[str] = (),
        reason: Reason | None = None,
        action: str = "",
    ) -> Self:
        """Return the result of a clause of the catalogue."""
        about = (clause.id, clause.level, clause.severity)
        return cls(*about, result, detail, stale, tuple(needs), reason, tuple(evidence), action)


def clause_result(clause: Clause, finding: Finding, contract: EngineContract) -> ClauseResult:
    """Compare a finding with the declared deviations, which excuse their symptoms except in a baseline."""
    declared = {d.symptom: d for d in contract.deviations if d.clause == clause.id and not clause.baseline}
    gone = sorted({symptom for symptom, deviation in declared.items() if not deviation.flaky} - set(finding.symptoms))
    stale = "".join(f"; stale: the declared deviation {symptom} did not occur" for symptom in gone)
    if finding.ok:
        spared = {symptom: deviation.action for symptom, deviation in declared.items() if deviation.flaky}
        action = "; ".join(dict.fromkeys(spared.values()))
        detail = f"{finding.detail}; known to occur now and then: {', '.join(spared)}" if spared else finding.detail
        return ClauseResult.of(clause, Result.PASS, detail + stale, finding.evidence, stale=bool(gone), action=action)
    if finding.symptoms and declared.keys() >= set(finding.symptoms):
        action = "; ".join(dict.fromkeys(declared[symptom].action for symptom in finding.symptoms))
        detail = finding.detail + stale
        return ClauseResult.of(clause, Result.DEVIATES, detail, finding.evidence, stale=bool(gone), action=action)
    unexcused = ", ".join(symptom for symptom in finding.symptoms if symptom not in declared)
    named = f" [{unexcused}]" if unexcused else ""
    return ClauseResult.of(clause, Result.FAIL, finding.detail + named, finding.evidence)


def fallen(clause: Clause, others: Iterable[str], results: Mapping[str, ClauseResult]) -> ClauseResult | None:
    """Return `not_run` if one of the other clauses failed, was not run or is unsupported, else None."""
    for need in others:
        other = results.get(need)
        if other is None or other.result in BECAME:
            state = BECAME[other.result] if other else "is absent"
            return ClauseResult.of(clause, Result.NOT_RUN, f"needs {need}, which {state}", needs=(need,))
    return None


def fallen_needs(results: Mapping[str, ClauseResult], clause_id: str) -> Iterator[ClauseResult]:
    """Return the clauses that a clause needs, directly or indirectly, and that do not hold."""
    needs = [results[need] for need in results[clause_id].needs if need in results]
    yield from (need for need in needs if need.result in FALLEN)
    for need in needs:
        yield from fallen_needs(results, need.id)


def unexplained(results: Iterable[ClauseResult]) -> list[ClauseResult]:
    """Return the clauses that were not run without an acceptable reason: each is a bug in turngate.

    Acceptable reasons are the environment, and a needed clause that failed, deviates, is unsupported, or was not run
    for such a reason itself.
    """
    by_id = {result.id: result for result in results}

    def is_explained(result: ClauseResult, below: frozenset[str] = frozenset()) -> bool:
        if result.result is not Result.NOT_RUN or result.reason is not None:
            return result.result is not Result.PASS
        needs = (by_id[need] for need in result.needs if need in by_id and need not in below)
        return any(is_explained(need, below | {result.id}) for need in needs)

    return [result for result in by_id.values() if result.result is Result.NOT_RUN and not is_explained(result)]


def verdict(results: Iterable[ClauseResult], *, recordings_only: bool = False) -> Verdict:
    """Return the verdict of one release; with `recordings_only`, only clauses that recordings can answer count."""
    return weighed((r.severity, r.result) for r in results if r.result is not Result.NOT_RUN or not recordings_only)


def weighed(results: Iterable[tuple[Severity, Result]]) -> Verdict:
    """Return the verdict that results of these severities amount to."""
    counted = set(results)
    if (Severity.BREAKING, Result.FAIL) in counted:
        return Verdict.BROKEN
    if (Severity.BREAKING, Result.NOT_RUN) in counted or not counted:
        return Verdict.UNANSWERED
    return Verdict.DEGRADED if any(result is Result.FAIL for _, result in counted) else Verdict.COMPATIBLE


def verdict_of_selected(results: Sequence[ClauseResult]) -> Verdict:
    """Return the verdict of selected clauses, only for the exit code: a clause that could not run is unanswered.

    No report shows this as the verdict of the release, since the other clauses did not run.
    """
    of_all = verdict(results)
    is_open = of_all is not Verdict.BROKEN and any(r.result is Result.NOT_RUN for r in results)
    return Verdict.UNANSWERED if is_open else of_all


def exit_code(
    verdicts: Sequence[Verdict], fail_on: FailOn = FailOn.BROKEN, *, stale: bool = False, caveats: bool = False
) -> Literal[0, 1, 2]:
    """Return 1 if a release is broken, or fails by `fail_on`; else 2 if one is unanswered or there is none; else 0."""
    if Verdict.BROKEN in verdicts:
        return 1
    if Verdict.UNANSWERED in verdicts or not verdicts:
        return 2
    fails = fail_on is not FailOn.BROKEN and (stale or Verdict.DEGRADED in verdicts)
    return 1 if fails or (fail_on is FailOn.CAVEAT and caveats) else 0


def capability(results: Iterable[ClauseResult]) -> EngineResumeCapability | None:
    """Return whether resume is reliable; None if that was not tested.

    A failed `handle.*` or `resume.*` clause makes it unreliable, except `handle.shape`: ids are opaque. Otherwise every
    breaking one of them must have run, or be unsupported by the release.
    """
    deciding = [r for r in results if r.id.startswith(RESUMABLE_NEEDS)]
    untested = any(r.result is Result.NOT_RUN and r.severity is Severity.BREAKING for r in deciding)
    against = (Result.FAIL, Result.UNSUPPORTED) if untested else (Result.FAIL,)
    wrong = [f"{r.id}: {r.detail}" for r in deciding if r.result in against]
    if not wrong and (untested or not deciding):
        return None
    detail = wrong[0] if wrong else "resumed by session id, and the model received the context"
    return EngineResumeCapability(supported=not wrong, probe_method="command", detail=detail)


def profile(able: EngineResumeCapability) -> EngineInteractiveProfile:
    """Return how runs on this release wait for their user."""
    return EngineInteractiveProfile("resumable" if able.supported else "sticky_process", able.detail)
