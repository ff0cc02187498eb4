"""A plan with all that its executable needs, compiled: to read it takes a millisecond, and no contract is parsed."""

import pickle
from pathlib import Path

from msgspec import Struct

from turngate import EngineContract
from turngate.contract.simulation import Simulation
from turngate_probes.conform.plan import ConformPlan

_FILE = "plan.pickle"


class CompiledPlan(Struct, frozen=True):
    """A plan, with the contract and the simulation of its release."""

    plan: ConformPlan
    contract: EngineContract
    simulation: Simulation


def write(new: CompiledPlan) -> None:
    """Write the plan to its folder, where processes may be reading the one before it."""
    partial = Path(new.plan.folder, f"{_FILE}.part")
    partial.write_bytes(pickle.dumps(new))
    partial.replace(Path(new.plan.folder, _FILE))


def read(folder: Path) -> CompiledPlan:
    """Read the plan of a folder, which this version of turngate has written."""
    new: CompiledPlan = pickle.loads((folder / _FILE).read_bytes())  # noqa: S301 - our own file, in our own folder
    return new
