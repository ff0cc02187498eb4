"""Arguments on the real CLIs, compared with the outcomes that the simulator is tested against."""

import pytest

from tests.probes import engines
from tests.probes.simulate.vectors import run, vectors
from turngate.files import default_cache
from turngate_probes.harness.sandbox import sandbox

pytestmark = pytest.mark.engines


@pytest.mark.timeout(1800)  # dozens of processes one after another, which take ten minutes on a busy machine
@pytest.mark.parametrize("engine", vectors())
def test_the_real_cli_reads_arguments_as_recorded(engine: str) -> None:
    """Each recorded outcome is that of the pinned release."""
    contract, executable = engines.pinned_release(engine)
    with sandbox(contract.hermetic, default_cache() / "sandboxes", engine, keep=False) as box:
        for vector, outcome in zip(vectors()[engine], run(contract, executable, box, vectors()[engine]), strict=True):
            outcome.assert_is(vector)
