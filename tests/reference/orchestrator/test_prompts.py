"""What is added to prompts, and what never is."""

import re
from pathlib import Path

import pytest

from turngate.envelope import Envelope, read_envelope
from turngate.model import Mode
from turngate_reference.orchestrator.prompts import artifact_patch, first_prompt, mode_patch, reply_prompt

BAN = re.compile(r"do not ask|never ask|nobody can answer", re.IGNORECASE)
HERE = Path("/runs/x/work/artifacts/abcdefgh")


def test_only_auto_bans_asking() -> None:
    """The text of mode auto forbids questions; that of mode interactive has no ban in it."""
    assert BAN.search(mode_patch(Mode.AUTO, None))
    assert not BAN.search(mode_patch(Mode.INTERACTIVE, None))
    assert "may ask" in mode_patch(Mode.INTERACTIVE, None)


@pytest.mark.parametrize("mode", list(Mode))
def test_paths_are_spoken_of_in_the_first_patch_only(mode: Mode) -> None:
    """Where artifacts go is the same in both modes, and the mode's part does not speak of paths."""
    assert str(HERE) in artifact_patch(HERE)
    assert not re.search(r"/|\bpath|director|file", mode_patch(mode, None), re.IGNORECASE)
    whole = first_prompt("P", mode, skill="S", artifacts=HERE, output_schema=None)
    assert whole.split("\n\n") == ["S", "P", artifact_patch(HERE), mode_patch(mode, None)]


def test_a_schema_is_shown_to_the_agent() -> None:
    """What final data must look like stands in the mode's part."""
    assert '{"type": "object"}' in mode_patch(Mode.AUTO, {"type": "object"})


def test_the_example_of_a_question_is_a_valid_envelope() -> None:
    """An agent that copies the example asks a valid question."""
    text = mode_patch(Mode.INTERACTIVE, None)
    example = text[text.index('{"outcome": "ask_user"') : text.index(", where kind")]
    found = read_envelope(example)
    assert isinstance(found, Envelope)
    assert found.interaction


@pytest.mark.parametrize("reply", ["--yolo", "/quit", "@file", ""])
def test_a_reply_never_begins_a_prompt(reply: str) -> None:
    """What a user writes can't be taken for a command of the engine."""
    prompt = reply_prompt(reply, Mode.INTERACTIVE, output_schema=None)
    assert prompt.startswith("The user's reply:\n\n" + reply)
