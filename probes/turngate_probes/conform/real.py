"""Scenarios on the real CLI: its environment, and a stub model backend that talks as the scenario wants."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import asdict, replace

from turngate import EngineContract
from turngate_probes.conform.catalogue import Scenario
from turngate_probes.conform.misbehaviour import for_turn
from turngate_probes.conform.model import spoken
from turngate_probes.conform.plan import Plan, Play
from turngate_probes.harness.sandbox import Sandbox, sandbox
from turngate_probes.stub_model import Hang, Refuse, Reply, Rule, Text

_BY_MODEL = {"turn", "backend", "hang", "says"}
_DEFAULTS = asdict(Play())


def obstacle(scenario: Scenario) -> str | None:
    """Return why a real CLI can't play a scenario; None: its model can make it."""
    for play in scenario.plays:
        changed = {name: value for name, value in asdict(play).items() if value != _DEFAULTS[name]}
        if play.hang not in (None, "before") or not changed.keys() <= _BY_MODEL:
            return "a real CLI does not do this on command"
    return None


@contextmanager
def staged(plan: Plan, contract: EngineContract, executable: Path) -> Iterator[Plan]:
    """Yield the plan with the real CLI and its environment, while its model backend serves."""
    with sandbox(contract.hermetic, Path(plan.folder), "sandbox", keep=True) as box:
        box.backend.script(*rules(plan, contract))
        yield replace(plan, real=str(executable), real_env=_environment(box, contract))


def _environment(box: Sandbox, contract: EngineContract) -> dict[str, str]:
    env = box.env(contract.hermetic, box.work)
    return {name: value for name, value in env.items() if name not in ("PATH", "PWD")}


def rules(plan: Plan, contract: EngineContract) -> Iterator[Rule]:
    """Return what the model says: the last turn first, since its requests contain those before it."""
    for turn in range(plan.turns, 0, -1):
        play = for_turn(plan.plays, turn)
        for talk in plan.conversations:
            text = spoken(talk, turn, plan.turns, play, contract.handle.nonexistent_id)
            yield Rule(_reply(play, text), contains=talk.prompts[0], also_contains=talk.prompts[turn - 1])


def _reply(play: Play, text: str) -> Reply:
    if play.hang:
        return Hang()
    return Refuse(play.backend, "the model is overloaded") if play.backend else Text(text)
