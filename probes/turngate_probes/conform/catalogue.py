"""Reads the rules and the scenarios."""

from functools import cache
from pathlib import Path

from turngate import EngineContract
from turngate.contract import load
from turngate.decoding import convert
from turngate_probes.conform.plan import Play
from turngate_probes.conform.structs import Rule, Scenario

_FOLDER = Path(__file__).parent
_MODELS = {"turn", "together", "says", "backend", "omits_answer", "hang"}


@cache
def rules() -> dict[str, Rule]:
    """Return every rule by its id, in the order of reports."""
    return {rule.id: rule for rule in convert(_rows("rules"), tuple[Rule, ...])}


@cache
def scenarios() -> dict[str, Scenario]:
    """Return every scenario by its id, in the order in which they run."""
    return {one.id: one for one in convert(_rows("scenarios"), tuple[Scenario, ...], strict=False)}


def obstacle(scenario: Scenario, contract: EngineContract) -> str | None:
    """Return why an engine can't play a scenario; None: it can."""
    if "lines" in scenario.needs and contract.streams.stdout.framing != "ndjson":
        return f"{contract.title} does not print one record per line"
    if "stdin" in scenario.needs and not any(channel.via == "stdin" for channel in contract.launch.prompt):
        return f"{contract.title} takes no prompt on standard input"
    return None


def in_process(scenario: Scenario) -> bool:
    """Return whether a process for several turns plays a scenario, too: what the model does, and hangs before it."""
    default = Play()
    return all(
        play.hang in (None, "before")
        and {name for name in Play.__struct_fields__ if getattr(play, name) != getattr(default, name)} <= _MODELS
        for play in scenario.plays
    )


def _rows(name: str) -> object:
    file = _FOLDER / f"{name}.yaml"
    return load.parse(file.read_text("utf-8"), file.name, ours=True).data[name]
