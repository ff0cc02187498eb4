import pytest
from msgspec.structs import replace

from tests.longer import first_quick
from tests.probes.simulate.played import at_known_release
from tests.reference.server.transports.stage import ReceivedEvents, Stage, contract
from turngate.contract.launch import PermissionMode
from turngate_reference.server.transports import acp
from turngate_reference.server.transports.events import Gone, Lost, Opened, PermissionAsked, TurnEnded

# of the server; the tests wait less
LATE_SECONDS = acp.LATE_SECONDS
PASSED_OVER = "mode {} was requested, but it uses "


@pytest.mark.parametrize(
    "faults, reported",
    [("refuses-model", "it offers no choice of models"), ("", "can't be confirmed")],
)
def test_a_model_that_a_session_does_not_confirm_is_a_loss(stage: Stage, faults: str, reported: str) -> None:
    """An engine that can't confirm the requested model is ended before the first prompt."""
    assert f"model m-1 was requested, but {reported}" in _with_session_model(stage, "gemini", faults).until(Lost).detail


def test_a_model_of_a_session_is_confirmed_by_the_answer(stage: Stage) -> None:
    """An engine whose answer names the requested model runs its turns."""
    received = _with_session_model(stage, "iflow")
    received.until(Opened)
    assert stage.turn(received, "go on").failure is None


def _with_session_model(stage: Stage, engine: str, faults: str = "") -> ReceivedEvents:
    """Open a process, and request a model from its session."""
    received, known = ReceivedEvents(), at_known_release(engine)
    known = replace(known, sticky=replace(known.sticky, model="session"))
    request = stage.request(known, faults=faults)
    stage.host.open("run", replace(request, model="m-1"), received)
    return received


@pytest.mark.parametrize(
    "engine, faults, reported",
    first_quick(
        [
            ("qwen", "wrong-mode", PASSED_OVER),
            ("qwen", "session-id=absent", "without an id"),
            ("gemini", "hides-mode", "mode {} was requested, but can't be confirmed"),
            ("qwen", "leaves-mode", PASSED_OVER),
            ("gemini", "hides-mode leaves-mode", PASSED_OVER),
            ("iflow", "wrong-mode", PASSED_OVER),
        ],
        3,
    ),
)
def test_asking_that_does_not_hold_is_a_loss(stage: Stage, engine: str, faults: str, reported: str) -> None:
    """An engine that would act without asking is ended before the first prompt, however it tells its mode."""
    known = at_known_release(engine)
    received = stage.open(known, faults=faults)
    stage.host.prompt("run", "do: act")
    assert known.sticky.interactive
    assert reported.format(known.sticky.interactive.mode) in received.until(Lost).detail
    received.until(Gone)
    assert not any(isinstance(event, Opened | PermissionAsked) for event in received.past)
    assert "do: act" not in (stage.folder / "run/protocol").read_text()


@pytest.mark.parametrize("engine", ["gemini", "iflow"])
def test_a_mode_without_an_option_is_confirmed_when_it_is_told(stage: Stage, engine: str) -> None:
    """The mode in the answer counts; if the answer is empty, the mode update does."""
    known = at_known_release(engine)
    # gemini starts in the mode that its contract wants
    mode = PermissionMode(mode="plan") if engine == "gemini" else known.sticky.interactive
    received, _ = stage.opened(replace(known, sticky=replace(known.sticky, interactive=mode)))
    assert any(message.get("method") == "session/set_mode" for message in stage.messages(">"))
    assert stage.turn(received, "go on").failure is None


@pytest.mark.long
def test_text_after_the_response_to_a_prompt_belongs_to_its_turn(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer is whole although its last piece comes after the end of the turn, with and without an envelope."""
    monkeypatch.setattr(acp, "LATE_SECONDS", LATE_SECONDS)
    received, _ = stage.opened(contract("acp"), faults="late-text")
    for text in ("a text of two pieces", '{"outcome": "final", "final_data": {"n": 1}}', "the next one"):
        assert stage.turn(received, f"do: say {text}").final_text == text
    ends = [number for number, message in enumerate(stage.messages("<")) if "stopReason" in str(message)]
    assert "agent_message_chunk" in str(stage.messages("<")[ends[-1] + 1 :])


@pytest.mark.parametrize("choices", ["many", "long"])
def test_a_request_with_too_much_to_choose_from_is_declined(stage: Stage, choices: str) -> None:
    """More or longer choices than a question may have are not shown to the user; nothing is granted."""
    received, _ = stage.opened(contract("acp"), faults=f"choices={choices}")
    assert stage.turn(received, "do: act RESULT").declined
    assert stage.answers() == ["cancelled"]
    assert not any(isinstance(event, PermissionAsked) for event in received.past)


def test_choices_without_a_name_are_offered_by_their_ids(stage: Stage) -> None:
    """A choice can be replied with only if it has a word."""
    received, _ = stage.opened(contract("acp"), faults="choices=unnamed")
    stage.host.prompt("run", "do: act RESULT")
    asked = received.until(PermissionAsked)
    assert asked.options == ("proceed_once", "cancel")
    stage.host.decide("run", asked.request_id, "cancel")
    received.until(TurnEnded)
    assert stage.answers() == ["cancel"]


def test_a_mode_that_is_left_is_a_loss(stage: Stage) -> None:
    """An engine that reports leaving the asking mode is ended."""
    received, _ = stage.opened(contract("acp"))
    stage.host.prompt("run", "fault: leaves-mode")
    assert "it switched from mode default to autoEdit" in received.until(Lost).detail
