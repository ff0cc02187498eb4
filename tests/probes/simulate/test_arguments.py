import pytest

from tests.probes.simulate.played import at_known_release
from turngate.argv import build
from turngate.contract.structs import EngineContract
from turngate.model import Mode
from turngate_probes.simulate.arguments import UsageProblem, read, refusal


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("via", ["argument", "stdin"])
def test_a_first_turn_is_read_back_as_built(contract: EngineContract, mode: Mode, via: str) -> None:
    """What `first_turn` builds is read back: prompt, channel, model, and whether it widens approval."""
    if all(channel.via != via for channel in contract.launch.prompt):
        assert via == "stdin"
        return
    built = build.first_turn(contract, "Which-colour?", mode, model="some/model", via=via)
    asked = read(contract, built.arguments)
    assert (asked.handle, asked.channel.via, asked.model) == (None, via, "some/model")
    assert asked.prompt == (None if via == "stdin" else "Which-colour?")
    assert asked.auto == (mode is Mode.AUTO and bool(contract.launch.auto))


def test_a_resume_is_read_back_as_built(contract: EngineContract) -> None:
    """What `resumed_turn` builds is read back with its session id, even one that has not the right shape."""
    for handle in (contract.handle.nonexistent_id, "not-a-session-id"):
        built = build.resumed_turn(contract, "blue", Mode.INTERACTIVE, handle, options=["--model=m"], check_shape=False)
        asked = read(contract, built.arguments)
        assert (asked.handle, asked.model, asked.auto) == (handle, "m", False)


def test_the_model_of_the_set_up_is_the_default(contract: EngineContract) -> None:
    """Without an option that chooses a model it is the one that the contract's set-up names."""
    assert read(contract, build.first_turn(contract, "hi", Mode.INTERACTIVE).arguments).model == contract.hermetic.model


@pytest.mark.parametrize("extra", ["--no-such-option", "one", "--help"])
def test_arguments_beyond_the_templates_are_refused(contract: EngineContract, extra: str) -> None:
    """An argument that the contract does not know is a usage problem that names it."""
    with pytest.raises(UsageProblem, match=extra):
        read(contract, [*contract.launch.start[: contract.launch.start.index("{options}")], extra])


def test_an_option_without_its_value_is_refused() -> None:
    """An option at the end that lacks its value leaves no prompt."""
    with pytest.raises(UsageProblem, match="missing"):
        read(at_known_release("codex"), ["exec", "--json", "--skip-git-repo-check", "--model"])


def test_a_prompt_that_the_contract_refuses_is_refused(contract: EngineContract) -> None:
    """An empty prompt can't travel by standard input or as iFlow's argument, and the contract's reason is given."""
    channel = contract.launch.prompt[0]
    assert refusal(channel, "hello") is None
    assert refusal(channel, " ") == next((r.why for r in channel.refuses), None)
