"""The case whose turns ask for a model."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.probes import engines
from tests.probes.turns import CODEX
from turngate_probes.harness.cases import CASES
from turngate_probes.harness.driver import EngineDriver
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.observations import Observation, Turn
from turngate_probes.harness.sandbox import sandbox

(CASE,) = (case for case in CASES if case.name == "asked-model")
WITHOUT_ARTIFACTS = replace(CODEX, artifacts=None)
WITHOUT_DEFAULT = replace(CODEX, hermetic=replace(CODEX.hermetic, default_model=None))


@pytest.mark.parametrize(
    "contract, steps",
    [
        (CODEX, {"first": "tool", "again": "writes"}),
        (WITHOUT_ARTIFACTS, {"first": "tool", "again": "tool", "auto": "tool"}),
        (WITHOUT_DEFAULT, {"first": "", "again": ""}),
    ],
    ids=["artifacts", "no-artifacts", "no-default"],
)
def test_tools_are_asked_for_where_other_turns_run_with_the_default(
    contract: object, steps: dict[str, str], tmp_path: Path
) -> None:
    """Each call is made directly, as a model makes it that the release doesn't know, and the turns are as planned."""
    assert isinstance(contract, type(CODEX))
    noted: list[Observation] = []
    with sandbox(contract.hermetic, tmp_path, "box", keep=False) as box:
        executable = engines.install(tmp_path)
        CASE.play(EngineDriver(CASE.name, contract, executable, box, engines.unlimited, Interrupt(), noted.append))
    turns = {turn.step: turn for turn in noted if isinstance(turn, Turn)}
    assert len(turns) == CASE.turns(contract)
    shown = {
        step: "tool" if turn.acted is not None else "writes" if len(turn.watched) > 1 else ""
        for step, turn in turns.items()
    }
    assert shown == steps
    assert {request.model for turn in turns.values() for request in turn.watched} == {"stub-asked"}
    assert not any(b"custom_tool_call" in request.body for turn in turns.values() for request in turn.watched)
