"""The contract of a control run offers every way to start a program, and forbids nothing."""

import pytest

from turngate.argv.build import first_turn, without_guards
from turngate.contract.engine_contract import EngineContract
from turngate.contract.load import engine_names, load_contract
from turngate.model import Mode

ENGINES = [load_contract(name) for name in engine_names()]
BY_OPTION = [contract for contract in ENGINES if any(canary.options for canary in contract.canaries)]


def name(contract: EngineContract) -> str:
    """Return the engine's name."""
    return contract.engine


@pytest.mark.parametrize("contract", ENGINES, ids=name)
def test_nothing_guards_a_control_run(contract: EngineContract) -> None:
    """Options and variables of the modes are not passed."""
    built = first_turn(without_guards(contract), "hi", Mode.AUTO)
    ours = {*contract.launch.interactive, *contract.launch.auto} - {*contract.launch.start}
    assert not ours & {*built.arguments}
    assert built.env == {}


@pytest.mark.parametrize("contract", BY_OPTION, ids=name)
def test_options_of_canaries_are_passed_word_for_word(contract: EngineContract) -> None:
    """A canary's options are passed unchanged, even those that callers may not use."""
    for canary in contract.canaries:
        options = (*canary.options, *canary.control.options)
        built = first_turn(without_guards(contract), "hi", Mode.AUTO, options=options).arguments
        assert any(built[i : i + len(options)] == options for i in range(len(built))), canary.name
