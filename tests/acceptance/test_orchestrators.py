"""What the simulated engines accept from correct orchestrators, the real CLIs accept, too."""

from pathlib import Path

import pytest

from tests.conform.orchestrators.catalogue import Right, right
from tests.conform.test_orchestrators import conform_changed
from tests.probes import engines
from turngate_probes.conform.conform_report import ScenarioResult

pytestmark = pytest.mark.engines


@pytest.mark.parametrize("habit", right(), ids=lambda habit: habit.id)
def test_a_habit_breaks_nothing(habit: Right, tmp_path: Path) -> None:
    """A conversation without faults succeeds, and no rule is broken."""
    _, executable = engines.pinned_release(habit.engine)
    report = conform_changed(tmp_path, habit, ("two-turns",), {habit.engine: executable})
    assert [(row.result, row.detail, row.breaches) for row in report.results] == [(ScenarioResult.PASS, "", ())]
