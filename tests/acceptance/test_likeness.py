"""Simulated engines say what the real ones do, to every orchestrator of the tests."""

import sys
from pathlib import Path

import pytest

from tests.conform.likeness import ENGINES, OF_TEXT, SCENARIOS, measured, reasons, why
from tests.conform.orchestrators.catalogue import of_process
from turngate_probes.conform.catalogue import BASIS, scenarios
from turngate_probes.conform.session import ConformSession
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.releases.source import ReleaseSource
from turngate_probes.releases.target import Target

pytestmark = [pytest.mark.engines, pytest.mark.long]
TWO_HOURS = 7200


@pytest.mark.timeout(TWO_HOURS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_driver_meets_the_same_on_the_simulated_and_on_the_real_engine(engine: str, tmp_path: Path) -> None:
    """A difference has its reason beside it, and every reason explains one."""
    rows = [measured(engine, scenario, tmp_path / scenario) for scenario in (*SCENARIOS, *OF_TEXT)]
    found = [(row, difference) for row in rows for difference in row.differences]
    assert [(row.scenario, difference) for row, difference in found if not why(row, difference)] == []
    certain = [one for one in reasons() if one.engine == engine and not one.by_chance]
    stale = [one for one in certain if not any(one.covers(*pair) for pair in found)]
    assert stale == []


@pytest.mark.parametrize("mistake", ["", "starts-elsewhere", "opens-elsewhere", "lets-act", "forgets", "sends-twice"])
def test_a_client_of_an_mcp_server_breaks_the_same_rules_on_both(mistake: str, tmp_path: Path) -> None:
    """Codex 0.148.0 has one, whose tools run the turns."""
    command, chosen = (sys.executable, *of_process("mcp", mistake)), (scenarios()[BASIS],)
    with ReleaseSource().held(Target("codex", "0.148.0"), print) as release:
        assert release.executable
        rules = [
            [
                breach.rule
                for row in ConformSession(command, (release.contract,), chosen, tmp_path / name, 1, real=real)
                .run(Interrupt(), lambda _: None)
                .results
                for breach in row.breaches
            ]
            for name, real in (("simulated", {}), ("real", {"codex": release.executable}))
        ]
    assert rules[0] == rules[1]
    assert bool(rules[0]) is (mistake not in ("", "starts-elsewhere"))
