import shlex
from itertools import pairwise

import pytest
from syrupy.assertion import SnapshotAssertion

from turngate.argv import build
from turngate.argv.build import Invocation
from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.contract.versions import Range
from turngate.errors import RefusedError
from turngate.model import Mode

PROMPT = "Which colour?"


def shown(built: Invocation) -> str:
    """Return an invocation as a shell would read it."""
    return shlex.join(built.arguments) + (f" <<< {shlex.quote(built.stdin.decode())}" if built.stdin else "")


def a_model(contract: EngineContract) -> str | None:
    """Return a model that a caller may choose: MODEL, the probe's if no other is allowed, or None without an option."""
    if not contract.launch.model:
        return None
    try:
        build.first_turn(contract, PROMPT, Mode.INTERACTIVE, model="MODEL")
    except RefusedError:
        return contract.hermetic.model
    return "MODEL"


def ranges(engine: str) -> list[Range]:
    """Return the version ranges with a different argv or different options."""
    held = [claim.range for claim in load.contract(engine).document.claims("launch", "options")]
    marks = {edge for known in held for edge in (known.since, known.until)}
    bounds = [None, *sorted(filter(None, marks), key=lambda v: tuple(map(int, v.split(".")))), None]
    return [Range(since, until) for since, until in pairwise(bounds)]


@pytest.mark.parametrize("engine", load.engine_names())
def test_start_and_resume_argv(engine: str, snapshot_json: SnapshotAssertion) -> None:
    """The argv of each range and mode, with a caller's model; the snapshot shows every change."""
    shapes = {}
    for span in ranges(engine):
        contract = load.find_contract(engine, span.since or ("0.0.1" if span.until else None))
        if contract is None:
            continue
        handle, model = contract.handle.nonexistent_id, a_model(contract)
        shapes[str(span)] = {
            mode.value: {
                "start": shown(build.first_turn(contract, PROMPT, mode, model=model)),
                "resume": shown(build.resumed_turn(contract, PROMPT, mode, handle, model=model)),
            }
            for mode in Mode
        }
    assert shapes == snapshot_json
