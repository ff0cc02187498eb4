import dataclasses

import pytest
from msgspec.structs import replace

from tests.reference.server.sticky.stage import Heard, Stage, contract
from turngate.model import Mode
from turngate_reference.server.sticky.events import Gone, Lost, Opened, PermissionAsked, TurnEnded


@pytest.mark.parametrize(
    "flaws, told",
    [("one-model", "it offers no choice of models"), ("", "can't be confirmed")],
)
def test_a_model_that_a_session_does_not_confirm_is_a_loss(stage: Stage, flaws: str, told: str) -> None:
    """An engine that can't confirm the requested model is ended before the first prompt."""
    assert f"model m-1 was requested, but {told}" in _with_session_model(stage, flaws).until(Lost).detail


def test_a_model_of_a_session_is_confirmed_by_the_answer(stage: Stage) -> None:
    """An engine whose answer names the requested model runs its turns."""
    heard = _with_session_model(stage, "answers")
    heard.until(Opened)
    assert stage.turn(heard, "go on").failure is None


def _with_session_model(stage: Stage, flaws: str) -> Heard:
    """Open a process, and request a model from its session."""
    heard, known = Heard(), contract("acp")
    known = replace(known, sticky=replace(known.sticky, model="session"))
    request = stage.request(known, "run", Mode.INTERACTIVE, {"FAKE_FLAWS": flaws})
    stage.host.open("run", dataclasses.replace(request, model="m-1"), heard)
    return heard


@pytest.mark.parametrize(
    "flaw, told",
    [
        ("deaf-to-mode", "mode default was requested, but it uses yolo"),
        ("no-session", "without an id"),
        ("contrary", "mode default was requested, but it uses yolo"),
        ("no-options contrary", "mode default was requested, but it uses yolo"),
        ("no-options mute", "mode default was requested, but can't be confirmed"),
        ("no-options answers deaf-to-mode", "mode default was requested, but it uses yolo"),
    ],
)
def test_asking_that_does_not_hold_is_a_loss(stage: Stage, flaw: str, told: str) -> None:
    """An engine that would act without asking is ended before the first prompt."""
    heard = stage.open(contract("acp"), flaws=flaw)
    stage.host.prompt("run", "ask")
    assert told in heard.until(Lost).detail
    heard.until(Gone)
    assert not any(isinstance(event, Opened | PermissionAsked) for event in heard.past)
    assert '"ask"' not in (stage.folder / "run/protocol").read_text()


@pytest.mark.parametrize("flaws", ["no-options", "no-options answers"])
def test_a_mode_without_an_option_is_confirmed_when_it_is_told(stage: Stage, flaws: str) -> None:
    """The mode in the answer counts; if the answer is empty, the mode update does."""
    heard = stage.open(contract("acp"), flaws=flaws)
    heard.until(Opened)
    assert stage.turn(heard, "go on").failure is None


@pytest.mark.parametrize("flaw", ["many-choices", "long-choice"])
def test_a_request_with_too_much_to_choose_from_is_declined(stage: Stage, flaw: str) -> None:
    """More or longer choices than a question may have are not shown to the user; nothing is granted."""
    heard = stage.open(contract("acp"), flaws=flaw)
    heard.until(Opened)
    ended = stage.turn(heard, "ask")
    assert (ended.final_text, ended.declined) == ("cancelled", True)
    assert not any(isinstance(event, PermissionAsked) for event in heard.past)


def test_choices_without_a_name_are_offered_by_their_ids(stage: Stage) -> None:
    """A choice can be replied with only if it has a word."""
    heard = stage.open(contract("acp"), flaws="blank-options")
    heard.until(Opened)
    stage.host.prompt("run", "ask")
    asked = heard.until(PermissionAsked)
    assert asked.options == ("y", "n")
    stage.host.decide("run", asked.request_id, "n")
    assert heard.until(TurnEnded).final_text == "n"


def test_a_mode_that_is_left_is_a_loss(stage: Stage) -> None:
    """An engine that reports leaving the asking mode is ended."""
    heard, _ = stage.opened(contract("acp"))
    stage.host.prompt("run", "drift")
    assert "it switched from mode default to yolo" in heard.until(Lost).detail
