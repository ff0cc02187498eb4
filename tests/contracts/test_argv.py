"""Properties of every argv, for each engine and release, with any prompt, options and model."""

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.contracts.invocations import AUTO, ENGINES, INTERACTIVE, both, carried
from tests.contracts.releases import NEWEST, RELEASES, every_release, every_sticky_release, session_of
from tests.contracts.spellings import SAFE, WIDENING
from turngate.argv.auto_flags import auto_flags_in
from turngate.argv.build import first_turn, resumed_turn, sticky
from turngate.contract.engine_contract import EngineContract
from turngate.errors import RefusedError
from turngate.model import Mode

# the folder of the files is filled in when the process starts
OPEN_SLOT = re.compile(r"\{(?!files\})[a-z]+\}")
HARD = (
    "-",
    "--",
    "--help",
    "--yolo",
    "-y",
    "-s=danger-full-access",
    "resume",
    "{handle}",
    "{text}",
    "{prompt}",
    "a b",
    "é\n",
)


PROMPTS = st.one_of(st.text(max_size=40), st.sampled_from(HARD))


def test_auto_flags_are_passed_in_auto_alone() -> None:
    """Auto-approve flags of a contract are in the argv of mode auto, on both turns, and in no other."""
    for contract in RELEASES:
        for auto, interactive in zip(both(contract, "go", AUTO), both(contract, "go", INTERACTIVE), strict=True):
            assert " ".join(contract.launch.auto) in " ".join(auto.own_arguments)
            assert auto_flags_in(auto.own_arguments, contract) or not contract.launch.auto
            assert auto_flags_in(interactive.own_arguments, contract) == ()


def test_engine_that_acts_unasked_is_reported_to_ask_in_interactive_alone() -> None:
    """Flags for mode interactive are in its argv, on both turns, unless the caller sets the option, and in no other."""
    qwen = NEWEST["qwen"]
    for built in both(qwen, "hi", INTERACTIVE):
        assert "--approval-mode default" in " ".join(built.arguments)
    for built in (*both(qwen, "hi", AUTO), *both(qwen, "hi", INTERACTIVE, options=["--approval-mode=default"])):
        assert "default" not in built.arguments


@every_release
def test_every_release_can_be_started_and_resumed(contract: EngineContract) -> None:
    """At every release both templates can be filled, with the probe's model and options."""
    options = [token.replace("{work}", "/w").replace("{tmp}", "/w/t") for token in contract.hermetic.options]
    for mode in Mode:
        model = "m" if contract.launch.model else None
        for built in both(contract, "hello", mode, options=options, model=model, workspace=Path("/w")):
            assert carried(built) == "hello"
            assert not [token for token in built.arguments if OPEN_SLOT.search(token)]
            assert set(options) < set(built.own_arguments)
            assert model is None or model in built.own_arguments


@given(ENGINES, PROMPTS, st.sampled_from(Mode))
def test_prompt_reaches_the_engine_unaltered_or_is_refused(contract: EngineContract, prompt: str, mode: Mode) -> None:
    """Any prompt reaches the engine unchanged, on stdin or as one argument, or is rejected."""
    try:
        built = both(contract, prompt, mode)
    except RefusedError:
        return
    plain = both(contract, "plain", mode)
    for one, other in zip(built, plain, strict=True):
        assert carried(one) == prompt
        if (one.stdin is None) == (other.stdin is None):
            assert one.own_arguments == other.own_arguments


@given(ENGINES, PROMPTS)
def test_prompt_argument_can_not_be_read_as_a_flag(contract: EngineContract, prompt: str) -> None:
    """A prompt argument comes after `--`, is attached to its option, or doesn't begin with a dash."""
    try:
        built = first_turn(contract, prompt, INTERACTIVE, via="argument")
    except RefusedError:
        return
    at = built.prompt_at[0]
    attached = re.match("--[a-z]+=", built.arguments[at].removesuffix(prompt))
    assert built.arguments[at - 1] == "--" or not prompt.startswith("-") or attached


@given(st.data())
def test_interactive_argv_never_holds_an_auto_flag(data: st.DataObject) -> None:
    """Options that widen approval are rejected anywhere among others; all other options are passed."""
    contract = NEWEST[data.draw(st.sampled_from(list(WIDENING)))]
    harmless = st.sampled_from(SAFE[contract.engine])
    wide = st.sampled_from(WIDENING[contract.engine])
    parts = data.draw(st.lists(st.one_of(harmless, wide), max_size=5))
    tokens = [token for part in parts for token in part]
    handle = session_of(contract)
    for build in (first_turn, resumed_turn):
        given_ = (handle,) if build is resumed_turn else ()
        try:
            built = build(contract, "--yolo", INTERACTIVE, *given_, options=tokens)
        except RefusedError:
            continue
        assert not set(parts) & set(WIDENING[contract.engine])
        assert auto_flags_in(built.own_arguments, contract) == ()


@given(ENGINES, st.lists(st.text(max_size=10), max_size=4), st.text(max_size=10), st.sampled_from(Mode))
def test_any_options_and_model_build_or_are_refused(
    contract: EngineContract, options: list[str], model: str, mode: Mode
) -> None:
    """Any text as option or model gives an invocation or is rejected; it raises nothing else."""
    try:
        built = both(contract, "hello", mode, options=options, model=model)
    except RefusedError:
        return
    for invocation in built:
        assert model in invocation.own_arguments
        assert all("\0" not in token for token in invocation.own_arguments)


@every_sticky_release
def test_every_release_can_be_kept(contract: EngineContract) -> None:
    """Every sticky release has arguments without open slots, which hold the model unless the session does."""
    for mode in Mode:
        built = sticky(contract, mode, model="m-1")
        assert not any(OPEN_SLOT.search(token) for token in built)
        assert ("m-1" in built) is (contract.sticky.model == "argument")


@every_sticky_release
def test_no_kept_engine_acts_unasked_in_interactive(contract: EngineContract) -> None:
    """No argument widens approval in interactive, and the contract says how asking is switched on and detected."""
    assert not auto_flags_in(sticky(contract, Mode.INTERACTIVE, model="m-1"), contract)
    approval = contract.sticky.interactive
    assert approval
    assert approval.mode or approval.expect or approval.query or approval.files or approval.files


@every_sticky_release
def test_what_an_engine_asks_is_answered_for_once(contract: EngineContract) -> None:
    """The contract names the requests for permission, and the answers that allow or deny one action."""
    assert contract.sticky.permission_requests
    assert contract.sticky.one_time
    assert contract.sticky.one_time.allow != contract.sticky.one_time.deny
