"""Orchestrators from their released packages break no rules but those of their baselines, which are not stale."""

from pathlib import Path

import pytest

from tests.conform.real import ORCHESTRATORS, Orchestrator
from turngate_probes.conform.conform_report import ScenarioResult

pytestmark = pytest.mark.engines
COMMON = ("two-turns", "two-conversations", "text-imitates-records", "prompt-with-newlines", "no-answer")


@pytest.mark.parametrize("orchestrator", ORCHESTRATORS, ids=lambda one: one.name)
def test_an_orchestrator_breaks_only_what_is_known(orchestrator: Orchestrator, tmp_path: Path) -> None:
    """Every scenario of its baseline is played, and some that it passes."""
    listed = (entry.scenario for entry in orchestrator.expected() if entry.scenario)
    report = orchestrator.conform(tmp_path, tuple(dict.fromkeys((*COMMON, *listed))), jobs=4)
    unexpected = [
        (row.scenario, row.result, row.detail, row.breaches)
        for row in report.results
        if row.result not in (ScenarioResult.PASS, ScenarioResult.EXCUSED)
    ]
    assert unexpected == []
    assert orchestrator.by_chance or report.stale == ()
