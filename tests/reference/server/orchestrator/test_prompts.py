"""What is added to prompts, and what never is."""

import re
from pathlib import Path
from typing import Any

import pytest

from turngate.model import Mode
from turngate.turn.envelope import KINDS, Envelope, read_envelope
from turngate_reference.server.orchestrator.prompts import artifact_patch, first_prompt, mode_patch, reply_prompt

BAN = re.compile(r"(do not|don't|never|not) ask|nobody can answer|decide alone", re.IGNORECASE)
BANNED = "Never ask the user a question."
HERE = Path("/runs/x/work/artifacts/abcdefgh")
OVERRIDES = {
    Mode.AUTO: "This overrides everything above that tells you to ask.",
    Mode.INTERACTIVE: "This overrides everything above that limits or rules out questions.",
}


def test_only_auto_bans_asking() -> None:
    """The text of mode auto forbids questions; that of mode interactive has no ban in it."""
    assert BAN.search(mode_patch(Mode.AUTO, None))
    assert not BAN.search(mode_patch(Mode.INTERACTIVE, None))
    assert "You may ask the user" in mode_patch(Mode.INTERACTIVE, None)


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("schema", [None, {"description": BANNED}])
def test_the_rule_on_asking_comes_after_all_text_of_others(mode: Mode, schema: dict[str, Any] | None) -> None:
    """Every prompt ends with the mode's rule, which says that it goes before what stands above it."""
    request = {"prompt": BANNED, "execution_mode": mode, "skill": BANNED, "output_schema": schema}
    first = first_prompt(request, HERE)
    reply = reply_prompt(BANNED, request, HERE)
    for prompt in (first, reply):
        assert prompt.endswith(mode_patch(mode, schema))
        assert prompt.endswith(OVERRIDES[mode])
        assert prompt.rindex(BANNED) < prompt.rindex("the user anything" if mode is Mode.AUTO else "You may ask")


@pytest.mark.parametrize("mode", list(Mode))
def test_paths_are_spoken_of_in_the_first_patch_only(mode: Mode) -> None:
    """Where artifacts go is the same in both modes, and the mode's part does not speak of paths."""
    assert str(HERE) in artifact_patch(HERE)
    assert not re.search(r"/|\bpath|director|file", mode_patch(mode, None), re.IGNORECASE)
    added = [artifact_patch(HERE), mode_patch(mode, None)]
    first = first_prompt({"prompt": "P", "execution_mode": mode, "skill": "S"}, HERE)
    assert first.split("\n\n") == ["S", "P", *added]
    reply = reply_prompt("R", {"execution_mode": mode}, HERE)
    assert reply.split("\n\n") == ["The user's reply:", "R", *added]


def test_a_schema_is_shown_to_the_agent() -> None:
    """What final data must look like stands in the mode's part."""
    assert '{"type": "object"}' in mode_patch(Mode.AUTO, {"type": "object"})


def test_the_example_of_a_question_is_a_valid_envelope() -> None:
    """An agent that copies the example asks a valid question."""
    text = mode_patch(Mode.INTERACTIVE, None)
    example = text[text.index('{"outcome": "ask_user"') : text.index(", where kind")]
    envelope = read_envelope(example)
    assert isinstance(envelope, Envelope)
    assert envelope.interaction


@pytest.mark.parametrize("reply", ["--yolo", "/quit", "@file", "-"])
def test_a_reply_never_begins_a_prompt(reply: str) -> None:
    """What a user writes can't be taken for a command of the engine."""
    prompt = reply_prompt(reply, {"execution_mode": "interactive"}, HERE)
    assert prompt.startswith("The user's reply:\n\n" + reply)


def test_every_kind_of_question_is_named() -> None:
    """An agent learns of all kinds that an envelope may have."""
    assert f"kind is one of {', '.join(KINDS)}." in mode_patch(Mode.INTERACTIVE, None)
