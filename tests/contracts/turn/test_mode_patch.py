import re

from turngate.model import Mode
from turngate.turn.envelope import KINDS, Envelope, read_envelope
from turngate.turn.mode_patch import mode_patch

BAN = re.compile(r"(do not|don't|never|not) ask|nobody can answer|decide alone", re.IGNORECASE)


def test_only_auto_bans_asking() -> None:
    """Only the prompt of mode auto forbids questions."""
    assert BAN.search(mode_patch(Mode.AUTO))
    assert not BAN.search(mode_patch(Mode.INTERACTIVE))
    assert "You may ask the user" in mode_patch(Mode.INTERACTIVE)


def test_a_schema_is_shown_to_the_agent() -> None:
    """The schema of final data is in the prompt."""
    assert '{"type": "object"}' in mode_patch(Mode.AUTO, {"type": "object"})


def test_the_example_of_a_question_is_a_valid_envelope() -> None:
    """The example of a question in the prompt is a valid envelope."""
    text = mode_patch(Mode.INTERACTIVE)
    example = text[text.index('{"outcome": "ask_user"') : text.index(", where kind")]
    envelope = read_envelope(example)
    assert isinstance(envelope, Envelope)
    assert envelope.interaction


def test_every_kind_of_question_is_named() -> None:
    """The prompt names every kind of question."""
    assert f"kind is one of {', '.join(KINDS)}." in mode_patch(Mode.INTERACTIVE)
