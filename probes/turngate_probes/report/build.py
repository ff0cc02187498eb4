"""Builds the report from the events of a journal.

A journal may end anywhere. Clauses that it doesn't mention are `not_run`, and their release is `unanswered`, or
`broken` if a breaking clause failed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec import UNSET, UnsetType, structs

from turngate import UsageError
from turngate.contract.clauses import Clause, ClauseSet, Reason, Result
from turngate.contract.load import catalogue
from turngate.contract.verdict import (
    CallEvidence,
    ClauseResult,
    Evidence,
    FailOn,
    OutputExcerpt,
    RequestExcerpt,
    TurnEvidence,
    Verdict,
    capability,
    exit_code,
    profile,
    unexplained,
    verdict,
    verdict_of_selected,
)
from turngate.sanitize import bounded
from turngate_probes.clauses.checks import LEVELS
from turngate_probes.harness.interrupt import Obstacle
from turngate_probes.journal.events import (
    CallEvent,
    ClauseEvent,
    Event,
    MatrixPlanned,
    ProbeFinished,
    ProbeStarted,
    ReleaseEvent,
    ReleaseFailed,
    ReleaseFinished,
    ReleasePlanned,
    TurnEvent,
    WithoutSettings,
)
from turngate_probes.journal.tool_access import tool_access
from turngate_probes.report.reports import ExitCode, NotAsked, ProbeReport, ReleaseReport, TestedModels, UserSettings
from turngate_probes.report.wording import label

INTERRUPTED_CODE: Final = 130
CRASHED_CODE: Final = 3

BUG = "not run, and turngate can't say why. This is a bug in turngate, and says nothing about the engine"

EXCERPT = 4000
WORD = 1000
MOST_REQUESTS = 20

# a complete journal without a clause of its set was written by a turngate that did not have it
_NOT_ASKED = Obstacle("not reported", Reason.NOT_ASKED)


def build(events: Iterable[Event]) -> ProbeReport:
    """Build the report; raises UsageError if the journal ended before the probe had started."""
    listed = list(events)
    started = next((event for event in listed if isinstance(event, ProbeStarted)), None)
    if started is None:
        raise UsageError("the journal contains no start of a probe", "run the probe again")
    finished = next((event for event in listed if isinstance(event, ProbeFinished)), None)
    listed_clauses = catalogue().of_set(started.clause_set).at_level(*LEVELS[started.level])
    wanted = [clause for clause in listed_clauses if not started.clauses or clause.id in started.clauses]
    about: dict[str, list[ReleaseEvent]] = {e.release: [] for e in listed if isinstance(e, ReleasePlanned)}
    for event in listed:
        if not isinstance(event, ProbeStarted | ProbeFinished | MatrixPlanned) and event.release in about:
            about[event.release].append(event)
    releases = tuple(_release(mine, wanted, started) for mine in about.values())
    interrupted = finished is None or finished.interrupted
    return ProbeReport(
        turngate=started.turngate,
        started_at=started.at,
        machine=started.machine,
        level=started.level,
        fail_on=started.fail_on,
        clauses=started.clauses,
        skipped=started.skipped,
        cores=started.cores,
        interrupted=interrupted,
        seconds=finished.seconds if finished else _elapsed(listed),
        engine_seconds=finished.engine_seconds if finished else sum(release.engine_seconds for release in releases),
        exit_code=code_of(releases, started.fail_on, interrupted=interrupted),
        releases=releases,
    )


def bugs(release: ReleaseReport) -> list[str]:
    """List the clauses of a release that were not run without a reason, which is a bug in turngate."""
    return [result.id for result in unexplained(release.clauses)]


def standing(release: ReleaseReport) -> Verdict:
    """Return the verdict of a release; for selected clauses, the one that the exit code is based on."""
    found = release.verdict or verdict_of_selected(release.clauses)
    # what its recordings show is no answer if they are all there is
    return Verdict.UNANSWERED if release.failed and found is not Verdict.BROKEN else found


def code_of(releases: Sequence[ReleaseReport], fail_on: FailOn, *, interrupted: bool) -> ExitCode:
    """Return the exit code of these releases; that of a crash if turngate itself failed."""
    if any(map(bugs, releases)):
        return CRASHED_CODE
    if interrupted:
        return INTERRUPTED_CODE
    clauses = [clause for release in releases for clause in release.clauses]
    stale, caveats = any(c.stale for c in clauses), any(c.result is Result.DEVIATES for c in clauses)
    return exit_code([standing(release) for release in releases], fail_on, stale=stale, caveats=caveats)


def _release(events: Sequence[ReleaseEvent], wanted: Iterable[Clause], started: ProbeStarted) -> ReleaseReport:
    selected = bool(started.clauses)
    plan = next(event for event in events if isinstance(event, ReleasePlanned))
    failed = next((event for event in events if isinstance(event, ReleaseFailed)), None)
    finished = next((event for event in events if isinstance(event, ReleaseFinished)), None)
    turns = [event for event in events if isinstance(event, TurnEvent)]
    found = {event.id: event.clause_result() for event in events if isinstance(event, ClauseEvent)}
    results = list(_in_order(found, wanted, _NOT_ASKED if finished else _why_missing(failed)))
    unknown = {result.id for result in unexplained(results)}
    observed = {event.name: event for event in events if isinstance(event, TurnEvent | CallEvent)}
    able = finished.capability if finished else None if selected else capability(results)
    settings = _settings(plan, events)
    without = settings.without if settings else {}
    kind = finished.profile if finished else profile(able) if able else None
    # a release that was not tested completely is never compatible
    early = Verdict.BROKEN if verdict(results) is Verdict.BROKEN else Verdict.UNANSWERED
    return ReleaseReport(
        release=plan.release,
        engine=plan.engine,
        version=plan.version,
        executable=plan.executable,
        source=plan.source,
        contract_version=plan.contract_version,
        note=plan.note,
        integrity=plan.integrity,
        output=plan.output,
        verdict=finished.verdict if finished else None if selected else early,
        clause_set=_clause_set(plan, started, results),
        level=started.level,
        profile=kind,
        capability=able,
        handle=finished.handle if finished else None,
        seconds=finished.seconds if finished else _elapsed(events),
        engine_seconds=finished.engine_seconds if finished else sum(turn.cpu_seconds for turn in turns),
        turns=finished.turns if finished else len(turns),
        durations={turn.name: turn.seconds for turn in turns},
        unverified=finished.unverified if finished else (),
        failed=NotAsked(failed.reason, failed.what, failed.hint) if failed else None,
        tool_access=tool_access(turns),
        settings=settings,
        models=_models(plan, turns),
        clauses=tuple(
            _shown(result, observed, without.get(result.id), is_bug=result.id in unknown) for result in results
        ),
    )


def _settings(plan: ReleasePlanned, events: Iterable[ReleaseEvent]) -> UserSettings | UnsetType:
    if isinstance(plan.settings, UnsetType):
        return UNSET
    without = (event.results for event in events if isinstance(event, WithoutSettings))
    return UserSettings(plan.settings, next(without, {}))


def _models(plan: ReleasePlanned, turns: Iterable[TurnEvent]) -> TestedModels | UnsetType:
    """Return the models of a release; journals of earlier versions and recordings don't say which they were."""
    if plan.source == "recordings" or (plan.asked_model is UNSET and plan.default_model is UNSET):
        return UNSET
    asked = None if plan.asked_model is UNSET else plan.asked_model
    if plan.default_model is UNSET:
        return TestedModels(None, None, asked, plan.no_default_model)
    plain = (turn for turn in turns if asked not in turn.argv)
    requests = (request for turn in plain for request in turn.requests or () if request.tools)
    return TestedModels(next((request.model for request in requests), None), plan.default_model, asked)


def _clause_set(plan: ReleasePlanned, started: ProbeStarted, results: Iterable[ClauseResult]) -> str:
    """Return the set of clauses that a verdict was given by: recordings say nothing about sets that are newer."""
    return recorded_set(results) if plan.source == "recordings" else started.clause_set


def recorded_set(results: Iterable[ClauseResult]) -> ClauseSet:
    """Return the newest set of which recordings have answered a clause; what only a contract declares is no answer."""
    answered = [one for one in results if one.evidence or one.result is not Result.DEVIATES]
    return catalogue().set_of_recordings((one.id, one.result) for one in answered)


def _in_order(
    found: dict[str, ClauseResult], wanted: Iterable[Clause], why_missing: Obstacle
) -> Iterator[ClauseResult]:
    # in the order of the catalogue, then clauses of newer or older catalogues
    for clause in wanted:
        missing = ClauseResult.of(clause, Result.NOT_RUN, why_missing.text, reason=why_missing.reason)
        yield found.pop(clause.id, missing)
    yield from found.values()


def _why_missing(failed: ReleaseFailed | None) -> Obstacle:
    if failed is None:
        return Obstacle("interrupted", Reason.INTERRUPTED)
    return Obstacle(f"could not be tested: {failed.what}", failed.reason)


def _shown(
    result: ClauseResult, observed: Mapping[str, TurnEvent | CallEvent], without: Result | None, *, is_bug: bool
) -> ClauseResult:
    """Replace names by their turn or call, if it was observed; a pass keeps the names.

    `without` is the result without the user's settings, where those were left out.
    """
    detail = f"{result.detail}: {BUG}" if is_bug else result.detail
    if without:
        detail += f"; without your settings: {'the same' if without is result.result else label(without)}"
    if result.result is Result.PASS:
        return result
    evidence = tuple(_evidence(observed[e]) if isinstance(e, str) and e in observed else e for e in result.evidence)
    return structs.replace(result, detail=detail, evidence=evidence)


def _evidence(event: TurnEvent | CallEvent) -> Evidence:
    if isinstance(event, CallEvent):
        return CallEvidence(event.name, event.method, event.path, event.status, event.sent, event.answer)
    requests = event.requests
    return TurnEvidence(
        event.name,
        tuple(bounded(word, WORD) for word in event.argv),
        event.exit_code,
        event.ended,
        _output(event.stdout),
        _output(event.stderr),
        None if requests is None else tuple(_request(request) for request in requests[:MOST_REQUESTS]),
        None if requests is None else len(requests),
    )


def _output(output: OutputExcerpt) -> OutputExcerpt:
    return OutputExcerpt(output.bytes, bounded(output.excerpt, EXCERPT))


def _request(request: RequestExcerpt) -> RequestExcerpt:
    last_text = request.last_user_text
    return structs.replace(
        request,
        path=bounded(request.path, WORD),
        last_user_text=None if last_text is None else bounded(last_text, WORD),
    )


def _elapsed(events: Sequence[Event]) -> float:
    first, last = (datetime.fromisoformat(event.at) for event in (events[0], events[-1]))
    return max(0.0, (last - first).total_seconds())
