"""What the model of a scenario says."""

import json

import msgspec

from turngate.turn.envelope import Envelope, read_envelope
from turngate_probes.conform.plan import Conversation
from turngate_probes.conform.scenario_model import LOST, answer
from turngate_probes.simulate.backend import Failed, ModelRequest
from turngate_probes.simulate.faults import Faults
from turngate_probes.simulate.misbehaviour import SAYS

GOOD = Faults()
TALKS = (Conversation("a", ("first of a", "red"), "amber"), Conversation("b", ("first of b", "red"), "beryl"))


def said(*prompts: str, faults: Faults = GOOD, turns: int = 2) -> object:
    """Return the answer to a session with these prompts of the user."""
    messages = [{"role": "user", "content": prompt} for prompt in prompts]
    return answer(ModelRequest("m", messages, ()), TALKS, turns, faults, "decoy-id")


def test_it_asks_until_the_last_turn() -> None:
    """The answer comes in the last turn of the conversation, and belongs to it."""
    question = read_envelope(str(said("first of a")))
    assert isinstance(question, Envelope)
    assert question.interaction is not None
    assert json.loads(str(said("please: first of b", "red")))["final_data"] == {"answer": "beryl"}
    assert json.loads(str(said("first of b", "red", turns=3)))["outcome"] == "ask_user"


def test_a_session_without_the_first_prompt_knows_nothing() -> None:
    """A fresh session doesn't have the answer."""
    assert json.loads(str(said("red")))["final_data"] == {"answer": LOST}


def test_imitations_are_part_of_the_question() -> None:
    """They are text, whatever they look like, and the envelope around them is valid."""
    for name in SAYS.keys() - {"long"}:  # only an answer may be so long
        question = read_envelope(str(said("first of a", faults=msgspec.structs.replace(GOOD, says=name))))
        assert isinstance(question, Envelope)
        assert question.interaction is not None
    assert "decoy-id" in str(said("first of a", faults=Faults(says="records")))


def test_a_failing_backend() -> None:
    """A play replaces the answer."""
    assert said("first of a", faults=Faults(backend=500)) == Failed("500", "the model is overloaded", 500)
