"""Values of scenarios."""

from turngate_probes.conform.catalogue import scenarios


def test_a_scenario_takes_as_long_as_its_delays_and_hangs() -> None:
    """A session plays the longest first."""
    assert scenarios()["slow-start"].seconds == 20
    assert scenarios()["hang-during-answer"].seconds == scenarios()["hang-during-answer"].deadline
    assert scenarios()["two-turns"].seconds == 0
