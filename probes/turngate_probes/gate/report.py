"""The report of a gate as data, by the schema `gate-report`, and the report of both probes that renderers know."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, structs

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
from turngate_probes.report.build import code_of
from turngate_probes.report.structs import ProbeReport, ReleaseReport

SCHEMA = "turngate.gate-report/1"
NAMED = ("release", "version", "source", "executable", "verdict", "note", "failed")


def gate_report(
    found: Collected,
    entries: Sequence[Entry],
    *,
    seconds: float,
    interrupted: bool = False,
    baseline: str | None = None,
) -> dict[str, Any]:
    """Compare and judge what was gathered."""
    old, new = found.old.release, _with_crossing(found.new.release, found.crossing)
    if new.release == old.release:
        new = structs.replace(new, release=f"{new.release} (new)")  # two builds that say the same version
    engine = new.engine
    was, now = (_contract(engine, each) for each in (old, new))
    compared = _compared(found, old, new, was, now)
    chosen = concerning(entries, engine, new.version)
    ruling = rule(old, new, compared, chosen, interrupted=interrupted)
    probe = _probe(found.frame, old, new, seconds, interrupted=interrupted)
    return {
        "schema": SCHEMA, "turngate": probe.turngate, "started_at": probe.started_at, "engine": engine,
        "old": _named(old), "new": _named(new),
        "outcome": ruling.outcome, "exit_code": ruling.code, "reasons": ruling.sentences,
        "must": _must(ruling, old, new, advice(new, compared, was, now)),
        "counts": {impact.value: sum(each.impact is impact for each in compared) for impact in WORST_FIRST},
        "differences": [msgspec.to_builtins(each) for each in compared],
        "baseline": {"file": baseline, "entries": _entries(ruling)},
        "seconds": round(seconds, 3), "clauses": list(probe.clauses), "probe": probe,
    }  # fmt: skip


def _must(ruling: Ruling, old: ReleaseReport, new: ReleaseReport, told: str) -> str:
    """Return the advice, unless something that was not asked might add to it."""
    open_ = ruling.outcome not in (PASS, FAIL) or (told == NOTHING and (old.failed or new.failed))
    return UNKNOWN if open_ else told


def _compared(
    found: Collected, old: ReleaseReport, new: ReleaseReport, was: EngineContract | None, now: EngineContract | None
) -> list[Difference]:
    if was is None or now is None or old.failed or new.failed:
        return unasked(new)
    both = [*differences(_side(found.old, old), _side(found.new, new), was), *claim_differences(was, now)]
    return sorted(both, key=lambda each: WORST_FIRST.index(each.impact))


def _side(answer: ReleaseAnswer, release: ReleaseReport) -> Side:
    return Side(release, survey(answer.events, answer.release.release))


def _with_crossing(release: ReleaseReport, crossing: ProbeReport | None) -> ReleaseReport:
    """Add the clauses that were asked of both releases, and weigh the newer one anew."""
    if crossing is None:
        return release
    (crossed,) = crossing.releases
    clauses = (*release.clauses, *crossed.clauses)
    return structs.replace(
        release, clauses=clauses, verdict=verdict(clauses), turns=release.turns + crossed.turns,
        engine_seconds=release.engine_seconds + crossed.engine_seconds,
    )  # fmt: skip


def _probe(
    frame: ProbeReport, old: ReleaseReport, new: ReleaseReport, seconds: float, *, interrupted: bool
) -> ProbeReport:
    """Put both releases into one report of a probe."""
    releases = (old, new)
    return structs.replace(
        frame, level="hermetic", strict=False, interrupted=interrupted, seconds=round(seconds, 3), peak_usage=UNSET,
        engine_seconds=round(sum(release.engine_seconds for release in releases), 3),
        clauses=tuple(clause.id for clause in new.clauses) if frame.clauses else (),
        exit_code=code_of(releases, strict=False, interrupted=interrupted), releases=releases,
    )  # fmt: skip


def _named(release: ReleaseReport) -> dict[str, Any]:
    return {key: msgspec.to_builtins(getattr(release, key)) for key in NAMED}


def _contract(engine: str, release: ReleaseReport) -> EngineContract | None:
    try:
        return load.contract(engine).at(release.version)
    except (NotCoveredError, ValueError):
        return None


def _entries(ruling: Ruling) -> list[dict[str, Any]]:
    return [
        {"clause": e.clause, "since": e.since, "until": e.until, "reason": e.reason, "at": e.at, "state": state}
        for e, state in ruling.entries
    ]
