"""Simulated engines say what the real ones do, to every orchestrator of the tests."""

from pathlib import Path

import pytest

from tests.conform.likeness import ENGINES, OF_TEXT, SCENARIOS, measured, reasons, why

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
