"""Drifted recordings, read by the contracts: each extraction rule is violated by one of them."""

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.snapshots.drifted import SOURCES, DriftedTurn, Source, drifted
from tests.snapshots.mutants import mutants
from turngate import load
from turngate.contract import EngineContract
from turngate.turn import TurnReading

BASE = "as recorded"
Shown = dict[str, Any]
sources = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.engine)


def shown(reading: TurnReading) -> Shown:
    """Show all that was read, with long texts cut."""
    session, sightings = reading.session, reading.handle.sightings
    return {
        "session": session and f"{session.handle_type} {session.handle_value}",
        "where": reading.handle.detail,
        "seen": [f"{each.stream} {each.index}: {str(each.value)[:80]}" for each in sightings[:3]],
        "ended": reading.ended,
        "failures": list(reading.failures),
        "final_text": reading.final_text and reading.final_text[:200],
        "outcome": (reading.result.failure_reason or reading.result.outcome.value)[:80],
        "framing": [problem[:80] for problem in reading.framing[:3]],
        "kinds": reading.census,
        "unknown": list(reading.unknown),
    }


def differences(turns: dict[str, DriftedTurn], contract: EngineContract) -> dict[str, Shown]:
    """Show the turn as it was recorded, and of each other one what is read differently."""
    base = shown(turns[BASE].read(contract))
    found = {name: shown(turn.read(contract)) for name, turn in turns.items() if name != BASE}
    return {BASE: base} | {
        name: {key: value for key, value in each.items() if value != base[key]} for name, each in found.items()
    }


@sources
def test_drifts(source: Source, snapshot_json: SnapshotAssertion) -> None:
    """What each drifted recording is read as; nothing where a rule ignores the drift."""
    contract = load.contract(source.engine).at(source.release)
    assert differences(drifted(source), contract) == snapshot_json


@sources
def test_every_broken_rule_changes_a_snapshot(source: Source) -> None:
    """Whichever rule of a contract is broken, some recording is read differently than the snapshot says."""
    contract = load.contract(source.engine).at(source.release)
    turns = drifted(source)
    right = {name: shown(turn.read(contract)) for name, turn in turns.items()}
    broken = [
        what
        for what, mutant in mutants(contract)
        if all(shown(turn.read(mutant)) == right[name] for name, turn in turns.items())
    ]
    assert not broken


def test_every_engine_is_drifted() -> None:
    """No contract is left out."""
    assert tuple(source.engine for source in SOURCES) == load.engines()
