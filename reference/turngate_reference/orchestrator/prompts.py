"""What is added to prompts: first where artifacts go, then how a turn ends and whether the agent may ask."""

import json
from pathlib import Path
from typing import Any

from turngate.model import Mode

_QUESTION = {
    "outcome": "ask_user",
    "interaction": {
        "kind": "choose_one",
        "prompt": "Which colour?",
        "options": ["red", "blue"],
        "required_fields": [],
        "context": {},
    },
}
_KINDS = "choose_one, confirm, fill_fields, open_text, risk_ack"
_END = "End your turn with exactly one JSON object and nothing after it."


def first_prompt(
    prompt: str, mode: Mode, *, skill: str | None, artifacts: Path, output_schema: dict[str, Any] | None
) -> str:
    """Put together what an engine gets on turn 1: skill, prompt, artifact patch, mode patch."""
    parts = [skill, prompt, artifact_patch(artifacts), mode_patch(mode, output_schema)]
    return "\n\n".join(part for part in parts if part)


def reply_prompt(reply: str, mode: Mode, *, output_schema: dict[str, Any] | None) -> str:
    """Put together what an engine gets when the user has answered.

    The words before the reply keep engines from reading a leading `/`, `@` or `-` as something of their own.
    """
    return f"The user's reply:\n\n{reply}\n\n{mode_patch(mode, output_schema)}"


def artifact_patch(artifacts: Path) -> str:
    """Say where artifacts go; the same in both modes."""
    return (
        f"Write every file that is a result of your work below the directory {artifacts}. "
        "This overrides any other path for results that is named above."
    )


def mode_patch(mode: Mode, output_schema: dict[str, Any] | None) -> str:
    """Say whether the agent may ask its user, and how it ends its turn."""
    final = f"{json.dumps({'outcome': 'final', 'final_data': {}})}, with your result as the value of final_data"
    if output_schema is not None:
        final += f", which must be valid against this JSON Schema: {json.dumps(output_schema)}"
    if mode is Mode.AUTO:
        return (
            "Nobody can answer you: do not ask the user anything, and decide alone whatever is open. "
            f"{_END} It has this form: {final}"
        )
    return (
        "You may ask the user: when a decision is theirs, do not decide it for them. "
        f"{_END} To ask, it has this form: {json.dumps(_QUESTION)}, where kind is one of {_KINDS}. "
        f"When you are done, it has this form: {final}"
    )
