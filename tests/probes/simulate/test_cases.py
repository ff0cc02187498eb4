"""The probe's own cases, played on the simulator as on any engine: it does what the contract says of the release."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeGuard, cast
from unittest.mock import patch

import pytest

from tests.probes.engines import Spectator
from turngate.contract import load
from turngate.contract.clauses import Result
from turngate.contract.structs import EngineContract
from turngate_probes.harness import cases, driver
from turngate_probes.harness.cases import CASES
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.simulate.process import install

Played = dict[str, Future[Spectator]]

DEADLINE = 2.0
STARTUP = 10.0
# what waits for a later minute is played with a clock of the test's making instead
PLAYED = tuple(case for case in CASES if case.name != "later-minute")
UNPLAYED = {"resume.later-minute", "resume.isolation", "executable.unchanged"}


@pytest.fixture(scope="module", name="played")
def _played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """Play what was asked for, all engines at once, since each hangs for a while; take it for hanging after seconds."""
    asked: list[EngineContract] = [
        cast(EngineContract, item.callspec.params["contract"]) for item in request.session.items if _asks_for_play(item)
    ]
    with (
        patch.object(cases, "_deadline", lambda _: DEADLINE),
        patch.object(driver, "STARTUP_ALLOWANCE", STARTUP),
        ThreadPoolExecutor(len(asked)) as pool,
    ):
        yield {each.engine: pool.submit(_play, each, tmp_path_factory.mktemp(each.engine)) for each in asked}


def _asks_for_play(item: pytest.Item) -> TypeGuard[pytest.Function]:
    return isinstance(item, pytest.Function) and item.function is test_the_simulator_keeps_its_contract


def _play(contract: EngineContract, folder: Path) -> Spectator:
    spectator = Spectator(contract)
    stage = CaseRunner.of(folder / "sandboxes", 3, Interrupt())
    stage.play(contract, install(contract, folder / "bin"), PLAYED, spectator)
    return spectator


@pytest.mark.long
def test_the_simulator_keeps_its_contract(contract: EngineContract, played: Played) -> None:
    """Every clause passes or deviates exactly as declared, and no declared deviation fails to occur."""
    results = played[contract.engine].result().judged("everything")
    expected = dict.fromkeys(results, Result.PASS)
    expected |= {each.clause: Result.DEVIATES for each in contract.deviations}
    wrong = {
        name: f"{found.result.value}: {found.detail}"
        for name, found in results.items()
        if name not in UNPLAYED and (found.result is not expected[name] or found.stale)
    }
    assert wrong == {}
    assert results.keys() | UNPLAYED == {clause.id for clause in load.catalogue().at_level("static", "hermetic")}
