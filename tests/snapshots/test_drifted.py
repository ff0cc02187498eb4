"""Changed recordings, read with the contracts: each extraction rule is violated by at least one."""

from typing import Any

import pytest
from msgspec.structs import replace
from syrupy.assertion import SnapshotAssertion

from tests.snapshots.drifted import SOURCES, Source, drifted
from tests.snapshots.mutants import mutants
from turngate.contract import load
from turngate.turn.read import TurnReading

BASE = "as recorded"
Shown = dict[str, Any]
sources = pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.engine)


def shown(reading: TurnReading) -> Shown:
    """Return everything that was read, with long texts cut."""
    session, occurrences = reading.session, reading.handle.occurrences
    return {
        "session": session and f"{session.handle_type} {session.handle_value}",
        "where": reading.handle.detail,
        "unfamiliar": reading.handle.unfamiliar,
        "displaced": reading.handle.displaced,
        "seen": [
            f"{occurrence.stream} {occurrence.index}: {str(occurrence.value)[:80]}" for occurrence in occurrences[:3]
        ],
        "ended": reading.ended,
        "failures": list(reading.failures),
        "final_text": reading.final_text and reading.final_text[:200],
        "outcome": (reading.result.failure_reason or reading.result.outcome.value)[:80],
        "final_data": reading.result.final_data,
        "framing": [problem[:80] for problem in reading.framing[:3]],
        "kinds": reading.census,
        "unknown": list(reading.unknown),
    }


def changes(reading: TurnReading, before: Shown) -> Shown:
    """Return what is read differently than before."""
    return {key: value for key, value in shown(reading).items() if value != before[key]}


@sources
def test_drifts(source: Source, snapshot_json: SnapshotAssertion) -> None:
    """How each changed recording is read; an empty entry means that no rule notices the change."""
    contract = load.contract(source.engine).at(source.release)
    turns = drifted(source)
    base = shown(turns.pop(BASE).read(contract))
    assert {BASE: base} | {name: changes(turn.read(contract), base) for name, turn in turns.items()} == snapshot_json


def test_rules_that_no_contract_states(snapshot_json: SnapshotAssertion) -> None:
    """How codex turns are read with rules that no contract uses yet, where that differs."""
    source = next(source for source in SOURCES if source.engine == "codex")
    contract, turns = load.contract(source.engine).at(source.release), drifted(source)
    every, last, only = (
        replace(contract, handle=replace(contract.handle, record=place)) for place in ("every", "last", "only")
    )
    both = replace(contract, streams=replace(contract.streams, stderr=contract.streams.stdout))
    rules = {
        "id in every record": (every, (BASE, "second id in a record of another kind")),
        "id in the last record": (last, (BASE, "same id again", "second id")),
        "id in the only record": (only, (BASE, "id in the second record", "first and last record alone")),
        "records on both streams": (both, tuple(turns)),
    }
    drifts = {
        f"{rule}: {name}": changes(turns[name].read(changed), shown(turns[name].read(contract)))
        for rule, (changed, names) in rules.items()
        for name in names
    }
    assert {name: differs for name, differs in drifts.items() if differs} == snapshot_json


@pytest.mark.long
@pytest.mark.nightly
@sources
def test_every_broken_rule_changes_a_snapshot(source: Source) -> None:
    """Breaking any rule of a contract changes how at least one recording is read."""
    contract = load.contract(source.engine).at(source.release)
    turns = drifted(source)
    right = {name: shown(turn.read(contract)) for name, turn in turns.items()}
    broken = [
        what
        for what, mutant in mutants(contract, turns[BASE].paths())
        if all(shown(turn.read(mutant)) == right[name] for name, turn in turns.items())
    ]
    assert not broken


def test_only_known_engines_are_drifted() -> None:
    """All changed recordings are of engines with a contract."""
    assert SOURCES
    assert {source.engine for source in SOURCES} <= {*load.engine_names()}
