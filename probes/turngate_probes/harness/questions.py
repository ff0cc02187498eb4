"""What a probe says to an engine, and what the stub model replies."""

from turngate import Mode
from turngate_probes.harness.driver import Ask
from turngate_probes.stub_model import Reply, Text, new_nonce

QUESTION = """{"outcome": "ask_user", "interaction": {"kind": "choose_one", "prompt": "Which colour?", \
"options": ["red", "blue"], "required_fields": [], "context": {}}}"""
ANSWER = '{"outcome": "final", "final_data": {"colour": "blue"}}'
ASK, FINAL = Text(QUESTION), Text(ANSWER)
TOOL_PATIENCE = 45.0  # seconds after the first request, for a turn in which the model asks for a tool


def ask(reply: Reply, *, turn_index: int = 1, mode: Mode = Mode.INTERACTIVE) -> Ask:
    """Return a prompt with a fresh nonce, to which the model replies with this."""
    nonce = new_nonce()
    prompt = "Ask me which colour I like." if turn_index == 1 else "blue"
    return Ask(f"{prompt} {nonce}", nonce, reply, mode=mode, turn_index=turn_index)
