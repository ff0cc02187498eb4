"""Checks of artifacts, on hand-made turns."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from tests.tables import each
from turngate.contract.engine_contract import EngineContract
from turngate.contract.home_and_workspace import ApprovalSetting, SetupFile
from turngate.contract.launch import Artifacts
from turngate_probes.clauses.checks import SkippedError
from turngate_probes.harness.artifacts_case import PLACES
from turngate_probes.harness.observations import NotObservedError, Turn

CONTRACT: EngineContract = replace(
    t.CODEX,
    artifacts=Artifacts(("--write", "{artifacts}")),
    approval_settings=(ApprovalSetting("trust", (SetupFile("{work}/x", "y"),)),),
)
WRITTEN, ONLY = "interactive.artifacts-written", "interactive.writes-only-artifacts"


def wrote(step: str, *places: str, calls: int = len(PLACES), **more: Any) -> Turn:
    """Return a turn in which the model made calls, and of which these places are left."""
    name = f"artifacts/{step}"
    requests = tuple(t.exchange(t.nonce(name), reply="tool_call run") for _ in range(calls))
    return t.turn(name, requests=requests, written=places, **more)


def test_a_file_below_the_directory_alone_passes() -> None:
    """On the first turn and the resume."""
    turns = wrote("all", "inside"), wrote("all-again", "inside")
    for clause in (WRITTEN, ONLY):
        finding = t.check(clause, *turns, contract=CONTRACT)
        assert (finding.ok, finding.evidence) == (True, ("artifacts/all", "artifacts/all-again"))


def test_a_file_elsewhere_under_an_asked_model_fails() -> None:
    """The model that a turn asks for writes no more than the release's own."""
    turns = [
        *(wrote(name, "inside") for name in ("all", "all-again")),
        t.turn("asked-model/again", written=("beside",)),
    ]
    finding = t.check(ONLY, *turns, contract=CONTRACT)
    assert (finding.ok, finding.evidence) == (False, ("asked-model/again",))


@each("place", [place for place in PLACES if place != "inside"])
@each("step", ["all", "all-again"])
def test_a_file_anywhere_else_fails(place: str, step: str) -> None:
    """Even if a later turn is missing."""
    turns = [wrote(name, "inside", *(place,) * (name == step)) for name in ("all", "all-again")]
    finding = t.check(ONLY, *turns, contract=CONTRACT)
    assert (finding.ok, finding.symptoms, finding.evidence) == (False, ("elsewhere",), (f"artifacts/{step}",))
    assert place in finding.detail
    assert not t.check(ONLY, next(turn for turn in turns if len(turn.written) > 1), contract=CONTRACT).ok


@pytest.mark.parametrize("step", ["all", "all-again"])
def test_a_turn_without_its_file_fails(step: str) -> None:
    """The clause about other places then has nothing to compare with, and needs this one."""
    turns = [wrote(name, *("inside",) * (name != step)) for name in ("all", "all-again")]
    finding = t.check(WRITTEN, *turns, contract=CONTRACT)
    assert (finding.ok, finding.symptoms, finding.evidence) == (False, ("not-written",), (f"artifacts/{step}",))


def test_calls_that_the_model_did_not_make_show_nothing() -> None:
    """That nothing was written elsewhere means something only if the model asked for it."""
    turns = wrote("all", "inside"), wrote("all-again", "inside", calls=1)
    with pytest.raises(NotObservedError, match="made 1 of"):
        t.check(ONLY, *turns, contract=CONTRACT)


def test_an_auto_approve_option_fails() -> None:
    """The options for artifacts are exempt by their exact value alone."""
    turns = wrote("all", "inside", own_arguments=("--sandbox", "workspace-write")), wrote("all-again", "inside")
    assert "workspace-write" in t.check(ONLY, *turns, contract=CONTRACT).detail


def test_a_contract_without_a_means_is_not_asked() -> None:
    """The facility doesn't exist in that release."""
    for clause in (WRITTEN, ONLY):
        with pytest.raises(SkippedError, match="no means"):
            t.check(clause, contract=replace(CONTRACT, artifacts=None))


def test_a_contract_without_a_tool_for_the_model_shows_nothing() -> None:
    """Nothing is known of what a turn may write if the model has no tool to write with."""
    toolless = replace(CONTRACT, hermetic=replace(CONTRACT.hermetic, tool_call=None))
    for clause in (WRITTEN, ONLY):
        with pytest.raises(NotObservedError, match="names no tool for the model to call"):
            t.check(clause, contract=toolless)
