"""Scenarios on the real CLI: its environment, and a stub model backend that talks as the scenario wants."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition

from msgspec.structs import replace

from turngate import EngineContract
from turngate_probes.conform.calls import note_request
from turngate_probes.conform.catalogue import Scenario
from turngate_probes.conform.plan import ConformPlan
from turngate_probes.conform.scenario_model import LOST, final, spoken
from turngate_probes.harness.sandbox import Sandbox, sandbox
from turngate_probes.simulate.faults import Faults, changed, for_turn
from turngate_probes.stub_model import Exchange, Hang, Refuse, Reply, StubRule, Text

_BY_MODEL = {"turn", "backend", "hang", "says", "together"}
TOGETHER = 10.0  # seconds


def obstacle(scenario: Scenario) -> str | None:
    """Return why a real CLI can't play a scenario; None: its model can make it."""
    for play in scenario.plays:
        if play.hang not in (None, "before") or not changed(play).keys() <= _BY_MODEL:
            return "a real CLI does not do this on command"
    return None


@contextmanager
def staged(plan: ConformPlan, contract: EngineContract, executable: Path) -> Iterator[ConformPlan]:
    """Yield the plan with the real CLI and its environments, while its model backend serves."""
    with sandbox(contract.hermetic, Path(plan.folder), "sandbox", keep=True) as box:
        box.backend.script(*rules(plan, contract))
        box.backend.on_exchange(_in_turns(plan))
        there = box.nested("elsewhere", contract.hermetic)
        own, elsewhere = _environment(box, contract), _environment(there, contract)
        yield replace(plan, real=str(executable), real_env=own, elsewhere=elsewhere)


def _in_turns(plan: ConformPlan) -> Callable[[Exchange], None]:
    """Return what notes a turn's request to the model, and has the answer wait for other conversations, if they meet.

    What an engine asks beside it, as for a title, offers the model no tools.
    """
    arrival, arrived = Condition(), set[tuple[str, int]]()
    meets = any(play.together for play in plan.plays)

    def requested(request: Exchange) -> None:
        if not (request.model and request.tools and request.may_call and not request.is_for_json):
            return
        note_request(Path(plan.folder), request.model, request.user_texts)
        said = "\n".join(request.user_texts)
        turn = max(sum(text in said for text in talk.prompts) for talk in plan.conversations)
        with arrival:
            arrived.update((talk.name, turn) for talk in plan.conversations if talk.prompts[0] in said)
            arrival.notify_all()
            if meets:
                arrival.wait_for(lambda: all((talk.name, turn) in arrived for talk in plan.conversations), TOGETHER)

    return requested


def _environment(box: Sandbox, contract: EngineContract) -> dict[str, str]:
    env = box.env(contract.hermetic, box.work)
    return {name: value for name, value in env.items() if name not in ("PATH", "PWD")}


def rules(plan: ConformPlan, contract: EngineContract) -> Iterator[StubRule]:
    """Return what the model says: the last turn first, since its requests contain those before it.

    To any other conversation it says that it knows nothing of it, as the model of a simulated engine does.
    """
    for turn in range(plan.turns, 0, -1):
        faults = for_turn(plan.plays, turn)
        for talk in plan.conversations:
            text = spoken(talk, turn, plan.turns, faults, contract.handle.nonexistent_id)
            yield StubRule(_reply(faults, text), contains=talk.prompts[0], also_contains=talk.prompts[turn - 1])
    yield StubRule(Text(final(LOST)), offers_tools=True)


def _reply(faults: Faults, text: str) -> Reply:
    if faults.hang:
        return Hang()
    return Refuse(faults.backend, "the model is overloaded") if faults.backend else Text(text)
