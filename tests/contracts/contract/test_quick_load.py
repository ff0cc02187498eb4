"""Packaged contracts are read by libyaml, which must read them as PyYAML itself does."""

import pytest

from turngate.contract import load
from turngate.files import contract_files


@pytest.mark.parametrize("engine", load.engines())
def test_packaged_contracts_read_the_same_either_way(engine: str) -> None:
    """Data and places are those that the thorough reader gives."""
    assert load.contract(engine).document == load.read(contract_files()[engine], f"engines/{engine}.yaml")
