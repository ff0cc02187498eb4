"""The simulations of releases."""

from turngate_probes.simulate.printing import simulation_of


def test_a_simulation_is_that_of_its_release() -> None:
    """Releases differ; no file describes an unknown engine."""
    old, new = simulation_of("codex", "0.42.0"), simulation_of("codex", "0.169.0")
    assert old is not None
    assert new is not None
    assert old != new
    assert simulation_of("codex", "0.169.0") is new
    assert simulation_of("nobody", "0.169.0") is None
