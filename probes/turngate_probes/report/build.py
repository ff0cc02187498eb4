"""From the events of a journal to the report, a dict by the schema `probe-report`.

A journal may end anywhere: clauses of which it says nothing are `not_run`, and their release `unanswered` (or
`broken`, if it says that much).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from turngate.contract.clauses import Clause, Reason, Result, Severity
from turngate.contract.load import catalogue
from turngate.contract.verdict import ClauseResult, Verdict, capability, exit_code, profile, unexplained, verdict
from turngate.errors import EnvironmentFailed
from turngate.sanitize import bounded
from turngate_probes.clauses.registry import LEVELS
from turngate_probes.harness.interrupt import Obstacle
from turngate_probes.journal.events import clause_event
from turngate_probes.journal.journal import Event
from turngate_probes.journal.tool_access import tool_access

SCHEMA = "turngate.probe-report/1"
INTERRUPTED_CODE, CRASHED_CODE = 130, 3

BUG = "not run, and turngate can't say why: that is a bug of turngate, and says nothing about the engine"

EXCERPT = 4000
WORD = 1000
MOST_REQUESTS = 20

KEPT_OF_PLAN = ("release", "engine", "version", "executable", "source", "contract_version", "note")
KEPT_OF_CLAUSE = ("id", "level", "severity", "result", "detail", "stale", "needs", "reason")
KEPT_OF_CALL = ("method", "path", "status", "sent", "answer")
KEPT_OF_REQUEST = ("method", "protocol", "model", "nonces", "tools", "bytes", "reply")

# a journal that says that it came to its end was written by a turngate that did not know the clause
_NOT_ASKED = Obstacle("not reported", Reason.NOT_ASKED)

Report = dict[str, Any]


def build(events: Iterable[Event]) -> Report:
    """Build the report; raises EnvironmentFailed if the journal ended before the probe had started."""
    listed = list(events)
    started = _only("probe.started", listed)
    if started is None:
        raise EnvironmentFailed("the journal does not say that a probe started", "run the probe again")
    finished = _only("probe.finished", listed)
    planned = [event for event in listed if event["event"] == "release.planned"]
    wanted = _wanted(started)
    releases = [_release(plan, [e for e in listed if _about(e, plan)], wanted) for plan in planned]
    interrupted = finished is None or finished["interrupted"]
    totals = finished or {
        "seconds": _elapsed(listed), "engine_seconds": sum(release["engine_seconds"] for release in releases)
    }  # fmt: skip
    return {
        "schema": SCHEMA,
        "turngate": started["turngate"],
        "started_at": started["at"],
        "machine": started["machine"],
        "level": started["level"],
        "strict": started["strict"],
        "clauses": started.get("clauses", []),
        "cores": started["cores"],
        "interrupted": interrupted,
        "seconds": totals["seconds"],
        "engine_seconds": totals["engine_seconds"],
        "exit_code": code_of(releases, strict=started["strict"], interrupted=interrupted),
        "releases": releases,
    }


def _wanted(started: Event) -> list[Clause]:
    asked = started.get("clauses")
    return [c for c in catalogue().at_level(*LEVELS[started["level"]]) if not asked or c.id in asked]


def _release(plan: Event, events: list[Event], wanted: list[Clause]) -> Report:
    turns = [event for event in events if event["event"] == "turn"]
    by_name = {f"{each['case']}/{each['step']}": each for each in events if each["event"] in ("turn", "call")}
    failed = _only("release.failed", events)
    finished = _only("release.finished", events)
    found = [e for e in events if e["event"] == "clause"]
    clauses = list(_in_order(found, wanted, _NOT_ASKED if finished else _why_missing(failed)))
    for clause in clauses:
        if clause["id"] in bugs({"clauses": clauses}):
            clause["detail"] = f"{clause['detail']}: {BUG}"
    return {
        **{key: plan[key] for key in KEPT_OF_PLAN},
        **_worth(clauses, finished),
        **_counted(events, turns, finished),
        "failed": failed and {key: failed[key] for key in ("reason", "what", "hint")},
        "price": tool_access(events),
        "clauses": [_clause(each, by_name) for each in clauses],
    }


def _counted(events: list[Event], turns: list[Event], finished: Event | None) -> Report:
    if finished:
        return {key: finished[key] for key in ("seconds", "engine_seconds", "turns", "unverified")}
    return {
        "seconds": _elapsed(events),
        "engine_seconds": sum(turn["cpu_seconds"] for turn in turns),
        "turns": len(turns),
        "unverified": [],
    }


def _worth(clauses: list[Event], finished: Event | None) -> Report:
    if finished:
        return {key: finished[key] for key in ("verdict", "profile", "capability", "handle")}
    results = [result_of(each) for each in clauses]
    able = capability(results)
    # a release that was not asked to the end is never good
    found = Verdict.BROKEN if verdict(results) is Verdict.BROKEN else Verdict.UNANSWERED
    return {
        "verdict": found.value,
        "profile": asdict(profile(able)),
        "capability": asdict(able),
        "handle": None,
    }


def _in_order(found: list[Event], wanted: list[Clause], why_missing: Obstacle) -> Iterator[Event]:
    # in the order of the catalogue; clauses that only a newer or older catalogue knows come last
    by_id = {each["id"]: each for each in found}
    for clause in wanted:
        yield by_id.pop(clause.id) if clause.id in by_id else _missing(clause, why_missing)
    yield from by_id.values()


def _missing(clause: Clause, why: Obstacle) -> Event:
    return clause_event(ClauseResult(clause, Result.NOT_RUN, why.text, reason=why.reason))


def _why_missing(failed: Event | None) -> Obstacle:
    if failed is None:
        return Obstacle("interrupted", Reason.INTERRUPTED)
    return Obstacle(f"could not be asked: {failed['what']}", Reason(failed["reason"]))


def result_of(clause: Mapping[str, Any]) -> ClauseResult:
    """Return the result of a clause that an event or a report tells of, without its evidence."""
    known = Clause(clause["id"], "", "", clause["level"], Severity(clause["severity"]))
    reason = Reason(clause["reason"]) if clause["reason"] else None
    result, needs = Result(clause["result"]), tuple(clause["needs"])
    return ClauseResult(known, result, clause["detail"], (), clause["stale"], needs, reason)


def bugs(release: Mapping[str, Any]) -> list[str]:
    """List the clauses of a release that were not run for no reason: turngate itself failed there."""
    return [each.clause.id for each in unexplained(map(result_of, release["clauses"]))]


def _clause(event: Event, seen: Mapping[str, Event]) -> Report:
    evidence: list[Any] = event["evidence"]
    if event["result"] != Result.PASS:
        # a name without its turn or call stays a name
        evidence = [_evidence(name, seen[name]) if name in seen else name for name in evidence]
    return {key: event[key] for key in KEPT_OF_CLAUSE} | {"evidence": evidence}


def _evidence(name: str, turn: Event) -> Report:
    if turn["event"] == "call":
        return {"call": name} | {key: turn[key] for key in KEPT_OF_CALL}
    requests = turn["requests"]
    return {
        "turn": name,
        "argv": [bounded(word, WORD) for word in turn["argv"]],
        "exit_code": turn["exit_code"],
        "ended": turn["ended"],
        "stdout": _output(turn["stdout"]),
        "stderr": _output(turn["stderr"]),
        "requests": None if requests is None else [_request(each) for each in requests[:MOST_REQUESTS]],
        "requests_seen": None if requests is None else len(requests),
    }


def _output(stream: Mapping[str, Any]) -> Report:
    return {"bytes": stream["bytes"], "excerpt": bounded(stream["excerpt"], EXCERPT)}


def _request(request: Mapping[str, Any]) -> Report:
    said = request["last_user_text"]
    return {key: request[key] for key in KEPT_OF_REQUEST} | {
        "path": bounded(request["path"], WORD),
        "last_user_text": None if said is None else bounded(said, WORD),
    }


def code_of(releases: list[Report], *, strict: bool, interrupted: bool) -> int:
    """Return the exit code of what is said of these releases; that of a crash if turngate failed to say it."""
    if any(map(bugs, releases)):
        return CRASHED_CODE
    if interrupted:
        return INTERRUPTED_CODE
    stale = any(clause["stale"] for release in releases for clause in release["clauses"])
    return exit_code([Verdict(release["verdict"]) for release in releases], strict=strict, stale=stale)


def _only(kind: str, events: list[Event]) -> Event | None:
    return next((event for event in events if event["event"] == kind), None)


def _about(event: Event, plan: Event) -> bool:
    return bool(event.get("release") == plan["release"])


def _elapsed(events: list[Event]) -> float:
    first, last = (datetime.fromisoformat(event["at"]) for event in (events[0], events[-1]))
    return max(0.0, (last - first).total_seconds())
