"""Explains rules and scenarios in words."""

from collections.abc import Iterable, Iterator

import msgspec

from turngate_probes.conform.catalogue import rules, scenarios
from turngate_probes.conform.plan import Play
from turngate_probes.conform.structs import Scenario

_EXPECTED = {
    "success": "COMMAND must exit with 0 and print the answer.",
    "failure": "COMMAND must exit with a code other than 0.",
    "either": "COMMAND may succeed with the right answer, or fail.",
}


def listed() -> str:
    """Return every rule and every scenario, a line each."""
    width = max(map(len, (*rules(), *scenarios())))
    rows = ["Rules", *(f"  {rule.id:<{width}}  {rule.sentence}" for rule in rules().values()), "", "Scenarios"]
    return "\n".join([*rows, *(f"  {one.id:<{width}}  {one.sentence}" for one in scenarios().values())]) + "\n"


def shown(chosen: Iterable[Scenario]) -> str:
    """Return what happens in each scenario (none: all), why it matters, and what the orchestrator must do."""
    return "\n".join("\n".join(_paragraph(one)) + "\n" for one in tuple(chosen) or scenarios().values())


def _paragraph(scenario: Scenario) -> Iterator[str]:
    rule = rules()[scenario.rule]
    yield scenario.id
    yield f"  {scenario.sentence}"
    yield f"  why: {scenario.why}"
    yield f"  expected: {_EXPECTED[scenario.expect]} Otherwise it breaks {rule.id}."
    yield f"  rule: {rule.sentence}"
    yield f"  deadline: {scenario.deadline:g} s for each of {scenario.turns} turns"
    for play in scenario.plays:
        yield f"  the engine: {_played(play)}"
    for source in scenario.seen:
        yield f"  seen: {source.engine} {source.release} ({source.see})"


def _played(play: Play) -> str:
    changed = msgspec.to_builtins(play)
    default = msgspec.to_builtins(Play())
    told = ", ".join(f"{name}={value}" for name, value in changed.items() if value != default[name] and name != "turn")
    return f"turn {play.turn}: {told}" if play.turn else f"every turn: {told}"
