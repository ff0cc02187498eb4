"""May the newer release take the older one's place: the exit code, and the reasons for it."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from turngate.clauses import Result, Severity
from turngate.verdict import Verdict
from turngate_probes.gate import baseline
from turngate_probes.gate.baseline import Entry
from turngate_probes.gate.classify import Difference, Impact
from turngate_probes.gate.compare import Results

PASS, FAIL, UNANSWERED, INTERRUPTED = "pass", "fail", "unanswered", "interrupted"
SURFACES = ("option", "event", "key", "tool", "call")
WEIGHED = (Impact.BREAKING, Impact.DEGRADED)
CODES = {PASS: 0, FAIL: 1, UNANSWERED: 2, INTERRUPTED: 130}


class Ruling(Struct, frozen=True):
    """The outcome with its reasons, and what each entry of the baseline does."""

    outcome: str
    reasons: tuple[str, ...]
    entries: tuple[tuple[Entry, str], ...]

    @property
    def code(self) -> int:
        """The exit code."""
        return CODES[self.outcome]


def rule(
    old: Mapping[str, Any], new: Mapping[str, Any], found: Sequence[Difference], entries: Sequence[Entry],
    *, interrupted: bool = False,
) -> Ruling:  # fmt: skip
    """Judge two releases (of a report) and what they differ in; `entries` are those that concern the newer one."""
    results = Results(new)
    differing = {each.clause for each in found if each.kind in SURFACES and each.impact in WEIGHED}
    states = tuple((e, baseline.state(results.of(e.clause), differs=e.clause in differing)) for e in entries)
    excused = {entry.clause for entry, state in states if state == "excuses"}
    against = [*_breaking(found, excused), *_failing(new, excused)]
    against += [
        f"{entry.clause} passes now: remove {entry.at} ({entry.reason})" for entry, state in states if state == "passes"
    ]
    open_ = [*_unanswered(old, Results(old)), *_unanswered(new, results)]
    if interrupted:
        return Ruling(INTERRUPTED, ("interrupted: this is what was known by then",), states)
    outcome = FAIL if against else UNANSWERED if open_ else PASS
    return Ruling(outcome, tuple(dict.fromkeys((*against, *open_))), states)


def _breaking(found: Sequence[Difference], excused: set[str]) -> list[str]:
    """Tell of breaking differences; those of clauses are told with the clauses."""
    return [
        f"{each.kind} {each.subject}: {each.detail}"
        for each in found
        if each.impact is Impact.BREAKING and each.clause not in excused and each.kind != "clause"
    ]


def _failing(new: Mapping[str, Any], excused: set[str]) -> list[str]:
    """Tell of breaking clauses that fail, whether or not they failed before."""
    return [
        f"{each['id']} fails: {each['detail']}"
        for each in new["clauses"]
        if (each["severity"], each["result"]) == (Severity.BREAKING, Result.FAIL) and each["id"] not in excused
    ]


def _unanswered(release: Mapping[str, Any], results: Results) -> list[str]:
    name = release["release"]
    if release["failed"]:
        return [f"{name} could not be asked: {release['failed']['what']}"]
    found = [
        f"{name}: {each['id']} was not answered: {each['detail']}"
        for each in release["clauses"]
        if (each["severity"], each["result"]) == (Severity.BREAKING, Result.NOT_RUN) and not results.fallen(each["id"])
    ]
    if not found and release["verdict"] == Verdict.UNANSWERED and not _fell(release):
        found = [f"{name} is unanswered"]
    return found


def _fell(release: Mapping[str, Any]) -> bool:
    return any(each["result"] in (Result.FAIL, Result.UNSUPPORTED) for each in release["clauses"])
