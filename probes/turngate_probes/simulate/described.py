"""What a simulated release prints, from the file that describes its engine in `simulations/`."""

from functools import cache
from pathlib import Path

import msgspec

from turngate.contract import load
from turngate.contract.simulation import Simulation
from turngate.contract.structs import EngineContract
from turngate.contract.versions import bare
from turngate.files import simulation_files


def simulation(contract: EngineContract) -> Simulation | None:
    """Return how the contract's release is simulated; None if no file describes it."""
    file = simulation_files().get(contract.engine)
    return _read(file, contract.version) if file else None


@cache
def _read(file: Path, version: str | None) -> Simulation | None:
    claims = load.parse(file.read_text("utf-8"), str(file), ours=True).claims()
    claim = next((claim for claim in claims if claim.range.covers(version)), None)
    return msgspec.convert(bare(claim.data), Simulation) if claim else None
