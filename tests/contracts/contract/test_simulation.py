"""The simulation of another output mode."""

import pytest

from turngate_probes.simulate.printing import simulation_of


@pytest.mark.parametrize("engine, output", [("claude", "stream-json"), ("codex", "text"), ("gemini", "stream-json")])
def test_an_output_mode_differs_only_in_what_it_names(engine: str, output: str) -> None:
    """Another output mode prints other records; the default one is the simulation itself."""
    simulation = simulation_of(engine, None)
    assert simulation
    assert output in simulation.outputs
    other = simulation.in_output(output)
    assert (other != simulation, other.outputs) == (True, simulation.outputs)
    assert simulation.in_output("") == simulation
