"""The model behind a simulated engine: it asks until the last turn, and then gives the answer of its conversation."""

import json
from collections.abc import Sequence
from itertools import groupby, takewhile

from turngate_probes.conform.plan import Conversation
from turngate_probes.simulate.backend import Answer, ModelRequest
from turngate_probes.simulate.faults import Faults
from turngate_probes.simulate.misbehaviour import OWN_PROMPT, failed, preamble

QUESTION = "Which colour do you like?"
LOST = "I don't know what you are talking about."


def answer(
    request: ModelRequest, conversations: Sequence[Conversation], turns: int, faults: Faults, decoy: str
) -> Answer:
    """Return what the model says to a whole conversation: a question, its answer, or that it knows nothing of it."""
    if failure := failed(faults):
        return failure
    user_texts = [str(message["content"]) for message in request.messages if message["role"] == "user"]
    if user_texts and user_texts[-1] == OWN_PROMPT:
        return final(OWN_PROMPT)
    owner = next((one for one in conversations if user_texts and one.prompts[0] in user_texts[0]), None)
    return final(LOST) if owner is None else spoken(owner, reached(conversations, user_texts), turns, faults, decoy)


def reached(conversations: Sequence[Conversation], user_texts: Sequence[str]) -> int:
    """Return the turn, from 1, that these messages of the user have reached in one session.

    A message that is repeated, as after a failed attempt, is the same turn. The last one may hold the whole
    conversation, as from an orchestrator that starts a session for each turn.
    """
    user_texts = [text for text in user_texts if text != OWN_PROMPT]
    replayed = (len(list(takewhile(lambda prompt: prompt in user_texts[-1], one.prompts))) for one in conversations)
    return max((sum(1 for _ in groupby(user_texts)), *replayed))


def spoken(talk: Conversation, turn: int, turns: int, faults: Faults, decoy: str) -> str:
    """Return the text of one turn of a conversation: a question, or in its last turn the answer."""
    before = preamble(faults, decoy)
    return _question(f"{before}{QUESTION}") if turn < turns and not faults.asks_nothing else final(before + talk.answer)


def final(text: str) -> str:
    """Return the text of a final answer."""
    return json.dumps({"outcome": "final", "final_data": {"answer": text}}, ensure_ascii=False)


def _question(text: str) -> str:
    interaction = {"kind": "open_text", "prompt": text, "options": [], "required_fields": [], "context": {}}
    return json.dumps({"outcome": "ask_user", "interaction": interaction}, ensure_ascii=False)
