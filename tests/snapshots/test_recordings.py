from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import pytest
from semver import Version
from syrupy.assertion import SnapshotAssertion

from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.turn.framing import framer
from turngate_probes.harness.observations import Turn
from turngate_probes.record import replay
from turngate_probes.releases import recorded_releases

FOLDER = recorded_releases.CHECKOUT
ENGINES = sorted(folder.name for folder in FOLDER.iterdir() if folder.is_dir())


@cache
def turns(engine: str) -> dict[str, list[Turn]]:
    """Return the turns of every recording of an engine, by version, those of other output modes after its own."""
    versions = sorted((folder.name for folder in (FOLDER / engine).iterdir()), key=Version.parse)
    return {name: list(replay.replay(contract).turns.values()) for name, contract in contracts(engine, versions)}


def contracts(engine: str, versions: list[str]) -> Iterator[tuple[str, EngineContract]]:
    """Return a contract for every version and every recorded output mode, with its name."""
    for version in versions:
        contract = load.contract(engine).at(version)
        yield version, contract
        for mode in contract.outputs:
            if (FOLDER / engine / version / mode.name).is_dir():
                yield f"{version} {mode.name}", contract.in_output(mode.name)


def shown_result(turn: Turn) -> dict[str, Any]:
    """Return a turn's result without its long texts."""
    result: dict[str, Any] = msgspec.to_builtins(turn.reading.result)
    del result["stderr"]
    final = turn.reading.final_text
    return result | {"final_text": final if final is None else final[:200]}


def test_there_are_recordings() -> None:
    """There are recordings, so that the tests below run."""
    assert ENGINES


@pytest.mark.parametrize("engine", ENGINES)
def test_handles(engine: str, snapshot_json: SnapshotAssertion) -> None:
    """The session id of every recorded turn, and where it was found or why it was not."""
    shown = {
        version: {
            turn.name: {"value": turn.reading.handle.value, "where": turn.reading.handle.detail} for turn in recorded
        }
        for version, recorded in turns(engine).items()
    }
    assert shown == snapshot_json


@pytest.mark.parametrize("engine", ENGINES)
def test_results(engine: str, snapshot_json: SnapshotAssertion) -> None:
    """The result of every recorded turn."""
    shown = {
        version: {turn.name: shown_result(turn) for turn in recorded} for version, recorded in turns(engine).items()
    }
    assert shown == snapshot_json


@pytest.mark.parametrize("engine", ENGINES)
def test_census(engine: str, snapshot_json: SnapshotAssertion) -> None:
    """The kinds of records and the key paths of each release."""
    shown = {}
    for version, recorded in turns(engine).items():
        number, _, mode = version.partition(" ")
        contract = load.contract(engine).at(number).in_output(mode) if mode else load.contract(engine).at()
        kinds = sorted({kind for turn in recorded for kind in turn.reading.census})
        shown[version] = {"kinds": kinds, "paths": sorted({p for turn in recorded for p in key_paths(turn, contract)})}
    assert shown == snapshot_json


def key_paths(turn: Turn, contract: EngineContract) -> set[str]:
    """Return the dotted key paths of all records of a turn, on either stream."""
    paths: set[str] = set()
    for name, data in (("stdout", turn.stdout), ("stderr", turn.stderr)):
        reader = framer(contract.stream("stdout" if name == "stdout" else "stderr"))
        for record in (*reader.feed(data), *reader.finish()):
            paths |= {f"{name}: {path}" for path in _paths(record, "")}
    return paths


def _paths(value: object, prefix: str) -> set[str]:
    if not isinstance(value, dict):
        return {prefix}
    return {path for key, inner in value.items() for path in _paths(inner, f"{prefix}.{key}".lstrip("."))}
