"""One scenario with one engine: why it can't be played, and what its runs show.

On a slow machine, a deadline may pass before the engine has misbehaved, or COMMAND may be ended in the middle of its
work. Then the scenario runs once more, with more time. If a long prompt starts no engine, a short one shows whether its
length is the reason. If a question seems to be kept, an engine that asks nothing shows whether COMMAND looks at it.
"""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from turngate import EngineContract
from turngate_probes.conform.answered import (
    REPLIES_ANYWAY,
    came_too_soon,
    ended_early,
    has_not_read,
    has_replied,
    is_long,
    may_have_canceled,
    still_read,
    too_long,
    turns_of,
    unanswered,
)
from turngate_probes.conform.catalogue import PROMPT, Scenario, in_process, obstacle
from turngate_probes.conform.conform_report import ScenarioResult
from turngate_probes.conform.judge import Breach, Evidence, breaches
from turngate_probes.conform.real import obstacle as real_obstacle
from turngate_probes.simulate.faults import Play

PATIENCE = 5  # times the deadline or the grace, where the machine was too slow for it
UNASKED = Play(asks_nothing=True)
AGAIN = "the second run, since the machine may have been too slow for the first; TURNGATE_DEADLINE_SEC was {deadline:g}"


class Outcome(Struct, frozen=True):
    """What the last run shows: the rules that it breaks, or why it says nothing about its scenario.

    again: Which run this was, unless it was the first.
    """

    evidence: Evidence
    breaches: tuple[Breach, ...] = ()
    missing: tuple[ScenarioResult, str] | None = None
    again: str = ""


def not_played(scenario: Scenario, contract: EngineContract, *, real: bool) -> str:
    """Return why an engine can't play a scenario; empty: it can."""
    # the output that COMMAND asks for, and whether it starts a process for several turns, is known when it has run
    modes = (contract, *(contract.in_output(mode.name) for mode in contract.outputs))
    obstacles = [obstacle(scenario, mode) for mode in modes]
    free = contract.sticky.transport != "none" and in_process(scenario, contract.sticky.transport)
    why = obstacles[0] if all(obstacles) and not free else None
    return why or (real_obstacle(scenario) if real else None) or ""


def outcome(scenario: Scenario, contract: EngineContract, attempt: Callable[[Scenario, str], Evidence]) -> Outcome:
    """Run a scenario, again if necessary; `attempt` gets it with its times and prompt, and the name of the run."""
    evidence, again = attempt(scenario, "1"), ""
    too_soon = came_too_soon(evidence) or may_have_canceled(evidence) or still_read(evidence)
    if too_soon or ended_early(evidence):
        deadline = scenario.deadline * (PATIENCE if too_soon else 1)
        evidence = attempt(replace(scenario, deadline=deadline, grace=scenario.grace * PATIENCE), "2")
        again = AGAIN.format(deadline=deadline)
    not_started = is_long(evidence) and not turns_of(evidence) and not has_not_read(evidence)
    if not_started and turns_of(attempt(replace(scenario, prompt=PROMPT), "short")):
        return Outcome(evidence, (Breach("orchestrator.text-whole", too_long(evidence)),), again=again)
    if missing := unanswered(evidence, contract):
        return Outcome(evidence, missing=missing, again=again)
    found = tuple(breaches(evidence))
    seems_kept = not found and any(play.goes_on_by_itself for play in scenario.plays)
    if seems_kept and has_replied(attempt(replace(scenario, plays=(UNASKED,)), "unasked")):
        return Outcome(evidence, missing=(ScenarioResult.SKIPPED, REPLIES_ANYWAY), again=again)
    return Outcome(evidence, found, again=again)
