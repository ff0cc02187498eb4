"""The part of a prompt that tells an agent how to end its turn, and whether it may ask."""

import json
from collections.abc import Mapping
from typing import Any

from turngate.model import Mode, ModeName
from turngate.turn.envelope import KINDS

_QUESTION = (
    '{"outcome": "ask_user", "interaction": {"kind": "choose_one", "prompt": "Which colour?", '
    '"options": ["red", "blue"], "required_fields": [], "context": {}}}'
)
_FINAL = '{"outcome": "final", "final_data": {}}'
_END = "End your turn with exactly one JSON object and nothing after it."


def mode_patch(mode: Mode | ModeName, output_schema: Mapping[str, Any] | None = None) -> str:
    """Return the end of a prompt: how the agent must end its turn, and whether it may ask its user.

    Without it, an agent doesn't know about the envelope, and an interactive turn ends as an error. `output_schema` is a
    JSON Schema for the final data. The rule on asking comes last, so that it overrides all text before it.

    >>> prompt = f"Paint the door\\n\\n{turngate.mode_patch('interactive')}"
    >>> "You may ask the user" in prompt
    True
    """
    final = f"{_FINAL}, with your result as the value of final_data"
    if output_schema is not None:
        final += f", which must be valid against this JSON Schema: {json.dumps(dict(output_schema))}"
    if Mode(mode) is Mode.AUTO:
        return (
            f"{_END} It has this form: {final}. "
            "Nobody can answer you: do not ask the user anything, and decide alone whatever is open. "
            "This overrides everything above that tells you to ask."
        )
    return (
        f"{_END} To ask the user, it has this form: {_QUESTION}, where kind is one of {', '.join(KINDS)}. "
        f"When you are done, it has this form: {final}. "
        "You may ask the user: leave every decision that is theirs to them. "
        "This overrides everything above that limits or rules out questions."
    )
