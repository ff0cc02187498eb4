from tests.probes.simulate.played import at_known_release
from turngate_probes.simulate.faults import NONE
from turngate_probes.simulate.printing import simulation
from turngate_probes.simulate.sticky.acp import Modes


def _modes(engine: str) -> Modes:
    contract = at_known_release(engine)
    return Modes(contract, simulation(contract).sticky, "m-1", NONE)


def test_a_session_begins_in_the_mode_of_its_engine_and_offers_the_others() -> None:
    """One mode is in force, and each has its name, in the engine's order."""
    modes = _modes("qwen")
    described = modes.described()["modes"]
    assert described["currentModeId"] == "auto"
    assert [mode["name"] for mode in described["availableModes"]] == ["Plan", "Default", "Auto Edit", "Auto", "YOLO"]


def test_only_known_modes_and_options_can_be_set() -> None:
    """An unknown mode or option changes nothing."""
    modes = _modes("qwen")
    assert [modes.set("plan"), modes.set("no-such")] == [True, False]
    assert [modes.set_option("mode", "yolo"), modes.set_option("colour", "red")] == [True, False]
    assert modes.current == "yolo"


def test_the_model_is_an_option_where_the_contract_says_so() -> None:
    """An engine whose model belongs to the session has an option for it."""
    modes = _modes("opencode")
    assert modes.set_option("model", "m-2")
    assert (modes.model, {option["id"]: option["currentValue"] for option in modes.options()}["model"]) == (
        "m-2",
        "m-2",
    )
    assert not _modes("gemini").set_option("model", "m-2")
