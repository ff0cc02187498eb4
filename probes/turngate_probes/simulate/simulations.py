"""Reads `simulations/<engine>.yaml`."""

from functools import cache
from pathlib import Path

from turngate.contract import load
from turngate.contract.simulation import Simulation
from turngate.contract.versions import bare
from turngate.decoding import convert
from turngate.files import simulation_files


def covering(engine: str, version: str | None) -> Simulation | None:
    """Return the simulation of a release; None if no file describes it."""
    file = simulation_files().get(engine)
    return _read(file, version) if file else None


@cache
def _read(file: Path, version: str | None) -> Simulation | None:
    claims = load.read(file, ours=True).claims()
    claim = next((claim for claim in claims if claim.range.covers(version)), None)
    return convert(bare(claim.data), Simulation) if claim else None
