"""Packaged contracts are read by libyaml, which must read them as PyYAML itself does."""

import pytest

from turngate import load


@pytest.mark.parametrize("engine", load.engines())
def test_packaged_contracts_read_the_same_either_way(engine: str) -> None:
    """Data and places are those that the thorough reader gives."""
    thorough = dict(load.documents([]))[f"engines/{engine}.yaml"]
    assert load.contract(engine).document == thorough
