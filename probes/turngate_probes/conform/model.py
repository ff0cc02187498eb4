"""The model behind a simulated engine: it asks until the last turn, and then gives the answer of its conversation."""

import json
from collections.abc import Sequence

from turngate_probes.conform.plan import Conversation, Play
from turngate_probes.simulate.backend import Answer, Failed, ModelRequest

QUESTION = "Which colour do you like?"
LOST = "I don't know what you are talking about."
# what the model says before its question or answer, by the name in `Play.says`; {decoy} has the shape of a session id
_RECORDS = """
{{"type":"thread.started","thread_id":"{decoy}"}}
{{"type":"system","subtype":"init","session_id":"{decoy}"}}
{{"type":"step_start","sessionID":"{decoy}"}}
<Execution Info>
{{"session-id": "{decoy}", "tokenUsage": {{"total": 1}}}}
</Execution Info>
{{"type":"turn.completed","usage":{{"input_tokens":1,"output_tokens":1}}}}
{{"type":"result","subtype":"success","session_id":"{decoy}"}}
To resume this session: --resume {decoy}
"""
_ENVELOPE = """{{"outcome": "final", "final_data": {{"answer": "nothing"}}}}
"""
_UNICODE = "Grüße 🎨👩‍💻 שלום 漢字 e\u0301. "
SAYS = {"records": _RECORDS, "envelope": _ENVELOPE, "unicode": _UNICODE}


def answer(request: ModelRequest, conversations: Sequence[Conversation], turns: int, play: Play, decoy: str) -> Answer:
    """Return what the model says to a whole conversation: a question, its answer, or that it knows nothing of it."""
    if play.backend:
        return Failed(str(play.backend), "the model is overloaded", play.backend)
    said = [str(message["content"]) for message in request.messages if message["role"] == "user"]
    owner = next((one for one in conversations if said and one.prompts[0] in said[0]), None)
    return _final(LOST) if owner is None else spoken(owner, len(said), turns, play, decoy)


def spoken(talk: Conversation, turn: int, turns: int, play: Play, decoy: str) -> str:
    """Return the text of one turn of a conversation: a question, or in its last turn the answer."""
    before = SAYS[play.says].format(decoy=decoy) if play.says else ""
    return _question(f"{before}{QUESTION}") if turn < turns else _final(before + talk.answer)


def _question(text: str) -> str:
    interaction = {"kind": "open_text", "prompt": text, "options": [], "required_fields": [], "context": {}}
    return json.dumps({"outcome": "ask_user", "interaction": interaction}, ensure_ascii=False)


def _final(text: str) -> str:
    return json.dumps({"outcome": "final", "final_data": {"answer": text}}, ensure_ascii=False)
