"""The report of a gate as data, by the schema `gate-report`, and the report of both probes that renderers know."""

from collections.abc import Sequence
from typing import Any

import msgspec

from turngate.contract import load
from turngate.contract.structs import EngineContract
from turngate.contract.verdict import verdict
from turngate.errors import NotCoveredError
from turngate_probes.gate.advice import NOTHING, UNKNOWN, advice
from turngate_probes.gate.baseline import Entry, concerning
from turngate_probes.gate.claims import claim_differences
from turngate_probes.gate.classify import Difference
from turngate_probes.gate.collect import Collected, ReleaseAnswer
from turngate_probes.gate.compare import WORST_FIRST, differences, unasked
from turngate_probes.gate.ruling import FAIL, PASS, Ruling, rule
from turngate_probes.gate.survey import Side, survey
from turngate_probes.report.build import Report, code_of, result_of

SCHEMA = "turngate.gate-report/1"
NAMED = ("release", "version", "source", "executable", "verdict", "note", "failed")


def gate_report(
    found: Collected,
    entries: Sequence[Entry],
    *,
    seconds: float,
    interrupted: bool = False,
    baseline: str | None = None,
) -> Report:
    """Compare and judge what was gathered."""
    old, new = found.old.release, _with_crossing(found.new.release, found.crossing)
    if new["release"] == old["release"]:
        new["release"] += " (new)"  # two builds that say the same version
    engine = str(new["engine"])
    was, now = (_contract(engine, each) for each in (old, new))
    compared = _compared(found, old, new, was, now)
    chosen = concerning(entries, engine, new["version"])
    ruling = rule(old, new, compared, chosen, interrupted=interrupted)
    probe = _probe(found.frame, old, new, seconds, interrupted=interrupted)
    return {
        "schema": SCHEMA, "turngate": probe["turngate"], "started_at": probe["started_at"], "engine": engine,
        "old": {key: old[key] for key in NAMED}, "new": {key: new[key] for key in NAMED},
        "outcome": ruling.outcome, "exit_code": ruling.code, "reasons": ruling.sentences,
        "must": _must(ruling, old, new, advice(new, compared, was, now)),
        "counts": {impact.value: sum(each.impact is impact for each in compared) for impact in WORST_FIRST},
        "differences": [msgspec.to_builtins(each) for each in compared],
        "baseline": {"file": baseline, "entries": _entries(ruling)},
        "seconds": round(seconds, 3), "clauses": list(probe["clauses"]), "probe": probe,
    }  # fmt: skip


def _must(ruling: Ruling, old: Report, new: Report, told: str) -> str:
    """Return the advice, unless something that was not asked might add to it."""
    open_ = ruling.outcome not in (PASS, FAIL) or (told == NOTHING and (old["failed"] or new["failed"]))
    return UNKNOWN if open_ else told


def _compared(
    found: Collected, old: Report, new: Report, was: EngineContract | None, now: EngineContract | None
) -> list[Difference]:
    if was is None or now is None or old["failed"] or new["failed"]:
        return unasked(new)
    both = [*differences(_side(found.old, old), _side(found.new, new), was), *claim_differences(was, now)]
    return sorted(both, key=lambda each: WORST_FIRST.index(each.impact))


def _side(answer: ReleaseAnswer, release: Report) -> Side:
    return Side(release, survey(answer.events, answer.release["release"]))


def _with_crossing(release: Report, crossing: Report | None) -> Report:
    """Add the clauses that were asked of both releases, and weigh the newer one anew."""
    if crossing is None:
        return dict(release)
    clauses = [*release["clauses"], *crossing["releases"][0]["clauses"]]
    counted = {key: release[key] + crossing["releases"][0][key] for key in ("turns", "engine_seconds")}
    worth = verdict(map(result_of, clauses)).value
    return {**release, **counted, "clauses": clauses, "verdict": worth}


def _probe(frame: Report, old: Report, new: Report, seconds: float, *, interrupted: bool) -> Report:
    """Put both releases into one report of a probe."""
    releases = [old, new]
    asked = [each["id"] for each in new["clauses"]] if frame["clauses"] else []
    return {key: value for key, value in frame.items() if key != "peaks"} | {
        "level": "hermetic", "strict": False, "interrupted": interrupted, "seconds": round(seconds, 3),
        "engine_seconds": round(sum(each["engine_seconds"] for each in releases), 3), "clauses": asked,
        "exit_code": code_of(releases, strict=False, interrupted=interrupted), "releases": releases,
    }  # fmt: skip


def _contract(engine: str, release: Report) -> EngineContract | None:
    try:
        return load.contract(engine).at(release["version"])
    except (NotCoveredError, ValueError):
        return None


def _entries(ruling: Ruling) -> list[dict[str, Any]]:
    return [
        {"clause": e.clause, "since": e.since, "until": e.until, "reason": e.reason, "at": e.at, "state": state}
        for e, state in ruling.entries
    ]
