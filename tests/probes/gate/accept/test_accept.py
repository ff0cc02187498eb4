"""`turngate gate --accept` end to end, into a folder of one's own."""

import json
from pathlib import Path

import pytest

from tests.probes.gate.conftest import NEW, Gate
from turngate import load
from turngate.overlay import contract_files
from turngate_probes.cases import CASES
from turngate_probes.gate import accept as module
from turngate_probes.releases import pinned_version

OURS = contract_files()["codex"]


@pytest.fixture(autouse=True)
def _one_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record one case alone."""
    monkeypatch.setattr(module, "RECORDED", tuple(case for case in CASES if case.name == "imitation"))


def test_an_accepted_release_is_pinned_recorded_and_in_range(gate: Gate, few: tuple[str, ...], tmp_path: Path) -> None:
    """Pin, lock, contract and recordings are in the folder, the diff is shown, and from then on it is in force."""
    gate.shop.lies(NEW, "moves-store")
    text = OURS.read_text()
    code, report = gate.run(*few, "--accept", "--contracts", tmp_path / "own")
    assert code == 0, report["reasons"]
    own = tmp_path / "own"
    assert json.loads((own / "pins/codex/package.json").read_text())["dependencies"] == {"@openai/codex": NEW}
    assert "resolved" not in (own / "pins/codex/package-lock.json").read_text()
    assert (own / f"fixtures/codex/{NEW}/imitation-first/recording.yaml").is_file()
    assert pinned_version("codex") == NEW
    declared = {each.clause for each in load.contract("codex").at(NEW).deviations}
    assert {"rollback.resume", "rollback.touched"} <= declared
    assert "+  - clause: rollback.resume" in gate.shop.err
    assert "review the diff before it is committed" in gate.shop.err
    assert OURS.read_text() == text, "an installed or checked out contract is left alone"
    # by its own contract it is as expected now
    code, report = gate.run(*few, "--contracts", own)
    found = {each["id"]: each["result"] for each in report["probe"]["releases"][1]["clauses"]}
    assert (found["rollback.resume"], code) == ("deviates", 0)


def test_what_was_not_answered_is_not_accepted(gate: Gate, few: tuple[str, ...], tmp_path: Path) -> None:
    """Nothing is written, and the exit code says so."""
    code, _ = gate.run(*few, "--accept", "--contracts", tmp_path / "own", new="0.169.1")
    assert code == 2
    assert "nothing was accepted" in gate.shop.err
    assert not (tmp_path / "own").exists()
