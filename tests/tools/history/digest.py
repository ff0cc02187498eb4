"""Reads from a release's journal what the history keeps of it: results, and the facts that releases differ in.

No text of an engine or of its prompts is kept, except the reason of a failure.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import UNSET

from turngate import Ended
from turngate.contract import load
from turngate.contract.clauses import Result, Severity
from turngate.contract.verdict import ClauseResult, Verdict
from turngate.history import SEARCHED, Kind, KnownRelease, KnownResult
from turngate.sanitize import bounded
from turngate_probes.journal.events import Event, PageEvent, ProbeStarted, ReleaseFinished, TurnEvent
from turngate_probes.journal.listings import sections
from turngate_probes.journal.tool_access import tool_access
from turngate_probes.report.build import build
from turngate_probes.report.reports import ReleaseReport

LONGEST = 300
# the turns whose output and requests are kept
TURNS: Mapping[str, str] = {
    "main/first": "first turn",
    "main/again": "resumed turn",
    "tool-call/first": "tool call",
    "tool-call/auto": "tool call in mode auto",
    "backend-401/first": "failed turn (401)",
    "backend-500/first": "failed turn (500)",
    "bad-handles/dead": "unknown session",
}
# texts that differ between two runs of the same release
_CHANGING = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|ses_[0-9A-Za-z]{26}"), "<id>"),
    (re.compile(r"tgn-[0-9a-f]+"), "<nonce>"),
    (re.compile(r"\b127\.0\.0\.1:\d+"), "127.0.0.1"),
    (re.compile(r"still running after \d+ s"), "still running"),
)
_SYMPTOMS = re.compile(r" \[([a-z0-9, -]+)\]\Z")
_STALE = re.compile(r"stale: the declared deviation (\S+) did not occur")


def known_release(events: Iterable[Event]) -> KnownRelease:
    """Return what the journal of one release shows."""
    seen = list(events)
    report = build(seen)
    release, started = report.releases[0], next(event for event in seen if isinstance(event, ProbeStarted))
    clauses = {clause.id: _result(release, clause) for clause in release.clauses}
    # a release that the contract doesn't cover has no turns
    contract = load.find_contract(release.engine, str(release.version))
    has_kinds = contract is not None and contract.events.field is not None
    return KnownRelease(
        version=str(release.version),
        integrity="" if release.integrity is UNSET else release.integrity,
        verdict=release.verdict,
        clause_set=release.clause_set,
        level=release.level,
        profile=release.profile.kind if release.profile else None,
        why=bounded(_lasting(_why(release)), LONGEST),
        measured=f"{datetime.fromisoformat(started.at):%Y-%m-%d}",
        turngate=started.turngate,
        contract=release.contract_version,
        cpu_seconds=release.engine_seconds,
        model=(None if release.models is UNSET else release.models.ordinary) or "",
        clauses={} if release.failed else clauses,
        facts=_default_model(release) | dict(_facts(seen, has_kinds=has_kinds)),
    )


def _default_model(release: ReleaseReport) -> dict[str, Mapping[str, str]]:
    """Return the model that the release takes by itself, if its turns ran with that."""
    models = None if release.models is UNSET else release.models
    if models is None or not models.depends_on or not models.own:
        return {}
    return {f"{Kind.DEFAULT_MODEL}/any turn": {"default model": models.own}}


def _why(release: ReleaseReport) -> str:
    """Return why a release is unusable, preferring a failing baseline to other breaking clauses."""
    if release.failed:
        # releases that fail alike have the same reason
        return release.failed.what.replace(f"{release.engine} {release.version}", release.engine)
    wrong = {Verdict.BROKEN: Result.FAIL, Verdict.UNANSWERED: Result.NOT_RUN}.get(release.verdict or Verdict.DEGRADED)
    catalogue = load.catalogue()
    breaking = [clause for clause in release.clauses if clause.result is wrong and clause.severity is Severity.BREAKING]
    first = min(breaking, key=lambda clause: not catalogue[clause.id].baseline, default=None)
    return f"{first.id}: {first.detail}" if first else ""


def _result(release: ReleaseReport, clause: ClauseResult) -> KnownResult:
    tells = clause.result in (Result.FAIL, Result.UNSUPPORTED, Result.NOT_RUN)
    detail = bounded(_lasting(clause.detail), LONGEST) if tells else ""
    return KnownResult(clause.result, tuple(_symptoms(release, clause)), detail)


def _symptoms(release: ReleaseReport, clause: ClauseResult) -> list[str]:
    """Return the symptoms of a failure, or the declared symptoms of a deviation that occurred."""
    if clause.result is Result.FAIL and (named := _SYMPTOMS.search(clause.detail)):
        return named[1].split(", ")
    if clause.result is not Result.DEVIATES:
        return []
    of_clause = [d for d in load.contract(release.engine).at(release.version).deviations if d.clause == clause.id]
    # a flaky deviation that was not observed is not reported; one that was is, with its action
    declared = {d.symptom for d in of_clause if not d.flaky or d.action in clause.action}
    return sorted(declared - {*_STALE.findall(clause.detail)})


def _lasting(text: str) -> str:
    for pattern, placeholder in _CHANGING:
        text = pattern.sub(placeholder, text)
    return text


def _facts(events: Sequence[Event], *, has_kinds: bool) -> Iterator[tuple[str, Mapping[str, str]]]:
    turns = [event for event in events if isinstance(event, TurnEvent)]
    started = _started(turns)
    for event in events:
        if isinstance(event, PageEvent) and event.options and event.step.startswith("help"):
            # a page without options was not printed; `names` has those, too, that the text on a page only mentions
            yield f"{Kind.OPTION}/{' '.join(event.argv)}", dict(_split(option) for option in event.options)
        elif isinstance(event, TurnEvent) and (place := TURNS.get(event.name)):
            yield from _turn(event, place, has_kinds=has_kinds, started=started)
        elif isinstance(event, ReleaseFinished) and event.hosts is not UNSET and started:
            yield f"{Kind.HOST}/any turn", dict.fromkeys(event.hosts, "")
    yield from sections(events).items()
    access = tool_access(turns)
    for mode, offered in access.modes() if access else ():
        if offered.tools is not None:
            tools = {**dict.fromkeys(offered.searched, SEARCHED), **dict.fromkeys(offered.tools, "")}
            yield f"{Kind.TOOL}/mode {mode}", tools
        if offered.call:
            yield f"{Kind.TOOL_CALL}/mode {mode}", {offered.call.tool: offered.call.outcome}


def _started(turns: Iterable[TurnEvent]) -> bool:
    """Whether a turn came as far as a record or a request; an engine that doesn't start says nothing about either."""
    asked = [turn for turn in turns if turn.kinds is not None or turn.requests is not None]
    return not asked or any(turn.kinds or turn.requests for turn in asked)


def _turn(turn: TurnEvent, place: str, *, has_kinds: bool, started: bool) -> Iterator[tuple[str, Mapping[str, str]]]:
    ended = str(turn.exit_code) if turn.ended is Ended.EXIT else "did not end"
    yield f"{Kind.EXIT_CODE}/{place}", {"exit code": ended}
    # what a turn printed and asked for until it was stopped depends on time
    if turn.ended is not Ended.EXIT or not started:
        return
    if turn.kinds is not None and turn.paths is not None and turn.types is not None:
        keys = dict(zip(turn.paths, turn.types, strict=True))
        section, records = (Kind.RECORD, dict.fromkeys(turn.kinds, "")) if has_kinds else (Kind.KEY, {})
        models = {request.model for request in turn.requests or () if request.model}
        yield f"{section}/{place}", {_named(name, models): value for name, value in (records | keys).items()}
    asked = {_lasting(f"{r.method} {r.path}"): "" for r in turn.requests or () if r.protocol is not None}
    if turn.requests:
        yield f"{Kind.REQUEST}/{place}", asked
    if turn.headers is not None:
        yield f"{Kind.HEADER}/{place}", dict.fromkeys(turn.headers, "")


def _named(name: str, models: Iterable[str]) -> str:
    """Return the name of a record or of its key, in plain words if the record has no type.

    A key that is the name of a model, as in usage statistics, says nothing about the release.
    """
    kind, colon, key = name.partition(": ")
    named = f"(no type){colon}{key}" if kind == "None" else name
    for model in models:
        # a variant of it, such as `[1m]`, is named behind it
        named = re.sub(rf"(?<=\.){re.escape(model)}(?:\[\w+\])?(?=\.|\Z)", "<model>", named)
    return named


def _split(option: str) -> tuple[str, str]:
    """Split an option from what it takes."""
    name, _, value = option.partition(" ")
    return name, value
