"""The simulations of releases."""

from turngate_probes.simulate.printing import covering


def test_a_simulation_is_that_of_its_release() -> None:
    """Releases differ; no file describes an unknown engine."""
    old, new = covering("codex", "0.42.0"), covering("codex", "0.169.0")
    assert old is not None
    assert new is not None
    assert old != new
    assert covering("codex", "0.169.0") is new
    assert covering("nobody", "0.169.0") is None
