import pytest

from tests.probes.simulate.played import simulated
from turngate.contract.engine_contract import EngineContract


@pytest.fixture(params=simulated(), ids=lambda contract: contract.engine)
def contract(request: pytest.FixtureRequest) -> EngineContract:
    """Return every contract that describes a simulation."""
    described: EngineContract = request.param
    return described
