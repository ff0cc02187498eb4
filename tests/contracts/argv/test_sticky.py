import pytest
from msgspec.structs import replace

from tests.contracts.releases import every_release
from turngate.argv.auto_flags import auto_flags_in
from turngate.argv.build import sticky
from turngate.contract import load
from turngate.contract.sticky import Sticky
from turngate.contract.structs import EngineContract
from turngate.errors import ContractError, RefusedError
from turngate.model import Mode


@every_release
def test_every_release_can_be_kept(contract: EngineContract) -> None:
    """Each has arguments without open slots, and a model among them where it does not go to the session."""
    for mode in Mode:
        built = sticky(contract, mode, model="m-1")
        assert not any("{" in token for token in built)
        assert ("m-1" in built) is (contract.sticky.model == "argument")


@every_release
def test_no_kept_engine_acts_unasked_in_interactive(contract: EngineContract) -> None:
    """No argument widens approval, and the contract says how asking is switched on and seen."""
    assert not auto_flags_in(sticky(contract, Mode.INTERACTIVE, model="m-1"), contract)
    stance = contract.sticky.interactive
    assert stance
    assert stance.mode or stance.expect or stance.query


@every_release
def test_what_an_engine_asks_is_answered_for_once(contract: EngineContract) -> None:
    """The contract names requests that ask, and words that allow and refuse a single action."""
    assert contract.sticky.permission_requests
    assert contract.sticky.one_time
    assert contract.sticky.one_time.allow != contract.sticky.one_time.deny


def test_options_stand_where_the_template_says() -> None:
    """What the mode needs comes first, then the model and the caller's options, whose own model wins."""
    claude = load.contract("claude").at()
    asking = ("--permission-prompt-tool", "stdio")
    built = sticky(claude, Mode.INTERACTIVE, options=("--add-dir", "/x"), model="m-1")
    assert built[-6:] == (*asking, "--model", "m-1", "--add-dir", "/x")
    own = sticky(claude, Mode.INTERACTIVE, options=("--model", "mine"), model="m-1")
    assert own[-4:] == (*asking, "--model", "mine")


@pytest.mark.parametrize(
    "mode, options, what",
    [
        (Mode.INTERACTIVE, ("--sandbox", "danger-full-access"), "without asking"),
        (Mode.AUTO, ("--sandbox", "read-only"), "no option of a sticky codex"),
        (Mode.AUTO, ("--what",), "not a known option"),
    ],
)
def test_an_option_that_a_kept_engine_can_not_take_is_refused(mode: Mode, options: tuple[str, ...], what: str) -> None:
    """Nothing is dropped in silence, and nothing widens approval in interactive."""
    with pytest.raises(RefusedError, match=what):
        sticky(load.contract("codex").at(), mode, options=options)


def test_an_engine_without_transport_is_not_sticky() -> None:
    """It is refused with the reason."""
    codex = replace(load.contract("codex").at(), sticky=Sticky("none"))
    with pytest.raises(RefusedError, match="can't be sticky"):
        sticky(codex, Mode.AUTO)


def test_a_contract_that_widens_a_kept_engine_is_wrong() -> None:
    """Arguments of ours that would let it act unasked are our mistake."""
    codex = load.contract("codex").at()
    widened = replace(codex, sticky=replace(codex.sticky, argv=("app-server", "--yolo")))
    with pytest.raises(ContractError, match="--yolo"):
        sticky(widened, Mode.INTERACTIVE)
    assert sticky(widened, Mode.AUTO) == ("app-server", "--yolo")
