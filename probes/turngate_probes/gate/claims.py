"""Compares what the contract says about the older and the newer release."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from turngate import EngineContract
from turngate.sanitize import bounded, command_line
from turngate_probes.report.gate_structs import Difference, Impact

ARGV = ("start", "resume", "auto", "interactive", "model")
# what an orchestrator without contracts implements itself
READ = ("streams", "handle", "end", "final", "store", "environment")
LONGEST = 300


def claim_differences(was: EngineContract, now: EngineContract) -> list[Difference]:
    """List the claims that differ; an orchestrator that uses the contract gets them automatically."""
    return [*_argv(was, now), *_flags(was, now), *_read(was, now), *_deviations(was, now)]


def _argv(was: EngineContract, now: EngineContract) -> Iterator[Difference]:
    for key in ARGV:
        before, after = getattr(was.launch, key), getattr(now.launch, key)
        if before != after:
            old, new = command_line(before, LONGEST) or "nothing", command_line(after, LONGEST) or "nothing"
            yield _claim(f"launch.{key}", old, new, Impact.DEGRADED, "the arguments differ")


def _flags(was: EngineContract, now: EngineContract) -> Iterator[Difference]:
    for section, gone, new, why_new in (
        ("options", Impact.DEGRADED, Impact.ADDITIVE, "callers may now pass it"),
        ("auto_flags", Impact.NONE, Impact.DEGRADED, "it lets the engine act without asking"),
    ):
        before, after = ({option.flag for option in getattr(side, section)} for side in (was, now))
        for flag in sorted(before ^ after):
            name = f"{section}: {flag}"
            if flag in before:
                yield _claim(name, flag, None, gone, "the engine no longer accepts it")
            else:
                yield _claim(name, None, flag, new, why_new)


def _read(was: EngineContract, now: EngineContract) -> Iterator[Difference]:
    for section in READ:
        before, after = (msgspec.to_builtins(getattr(side, section)) for side in (was, now))
        if before != after:
            old, new = _shown(before, after), _shown(after, before)
            detail = "turns are read, or sessions are found, differently"
            yield _claim(section, old, new, Impact.DEGRADED, detail)


def _deviations(was: EngineContract, now: EngineContract) -> Iterator[Difference]:
    """List deviations that are declared for only one release; the clause's result may be the same in both."""
    before, after = ({(d.clause, d.symptom): d.compensation for d in side.deviations} for side in (was, now))
    for clause, symptom in sorted(before.keys() ^ after.keys()):
        if (clause, symptom) in after:
            action = after[clause, symptom]
            yield Difference("deviation", f"{clause} {symptom}", None, symptom, Impact.DEGRADED, action, clause)
        else:
            detail = "the contract no longer declares it"
            yield Difference("deviation", f"{clause} {symptom}", symptom, None, Impact.ADDITIVE, detail, clause)


def _claim(subject: str, before: str | None, after: str | None, impact: Impact, detail: str) -> Difference:
    return Difference("claim", subject, before, after, impact, detail, None)


def _shown(value: Any, other: Any) -> str:
    """Render the parts that differ."""
    if isinstance(value, Mapping) and isinstance(other, Mapping):
        value = {key: part for key, part in value.items() if other.get(key) != part}
    return bounded(msgspec.json.encode(value).decode(), LONGEST)
