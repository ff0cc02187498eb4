"""The probe's own cases, played on the simulator as on any engine: it does what the contract says of the release."""

from pathlib import Path

import pytest

from tests.probes.engines import Spectator
from turngate import load
from turngate.clauses import Result
from turngate.contract import EngineContract
from turngate_probes import cases, lab
from turngate_probes.cases import CASES
from turngate_probes.interrupt import Interrupt
from turngate_probes.play import Stage
from turngate_probes.simulate.process import install

DEADLINE = 2.0
STARTUP = 10.0
# what waits for a later minute is played with a clock of the test's making instead
PLAYED = tuple(case for case in CASES if case.name != "later-minute")
UNPLAYED = {"resume.later-minute", "resume.isolation", "executable.unchanged"}
UNANSWERED = {
    "iflow": {
        "prompt.not-a-flag": "its contract has no way for a prompt that begins with a dash",
        "prompt.large": "its prompt travels as an argument alone",
    }
}


@pytest.fixture(autouse=True)
def _short_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take an engine for hanging after seconds."""
    monkeypatch.setattr(cases, "_deadline", lambda _: DEADLINE)
    monkeypatch.setattr(lab, "STARTUP_ALLOWANCE", STARTUP)


def test_the_simulator_keeps_its_contract(contract: EngineContract, tmp_path: Path) -> None:
    """Every clause passes or deviates exactly as declared, and no declared deviation fails to occur."""
    executable = install(contract, tmp_path / "bin")
    spectator = Spectator(contract)
    stage = Stage.of(tmp_path / "sandboxes", 3, Interrupt())
    stage.play(contract, executable, PLAYED, spectator)
    results = spectator.judged("everything")
    expected = dict.fromkeys(results, Result.PASS)
    expected |= {each.clause: Result.DEVIATES for each in contract.deviations}
    expected |= dict.fromkeys(UNANSWERED.get(contract.engine, ()), Result.NOT_RUN)
    wrong = {
        name: f"{found.result.value}: {found.detail}"
        for name, found in results.items()
        if name not in UNPLAYED and (found.result is not expected[name] or found.stale)
    }
    assert wrong == {}
    assert results.keys() | UNPLAYED == {clause.id for clause in load.catalogue().at_level("static", "hermetic")}
