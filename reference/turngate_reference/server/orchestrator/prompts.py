"""Adds two texts to every prompt: where artifacts go, then how to end a turn and whether the agent may ask."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turngate.model import Mode
from turngate.turn.envelope import KINDS

_QUESTION = (
    '{"outcome": "ask_user", "interaction": {"kind": "choose_one", "prompt": "Which colour?", '
    '"options": ["red", "blue"], "required_fields": [], "context": {}}}'
)
_FINAL = '{"outcome": "final", "final_data": {}}'
_END = "End your turn with exactly one JSON object and nothing after it."


def first_prompt(request: Mapping[str, Any], artifacts: Path) -> str:
    """Return what an engine gets on turn 1 of a requested run: skill, prompt, artifact patch, mode patch."""
    return "\n\n".join(filter(None, [request.get("skill"), request["prompt"], *_patches(request, artifacts)]))


def reply_prompt(reply: str, request: Mapping[str, Any], artifacts: Path) -> str:
    """Return what an engine gets when the user has answered: reply, artifact patch, mode patch.

    The words before the reply keep engines from reading a leading `/`, `@` or `-` as something of their own.
    """
    return "\n\n".join(["The user's reply:", reply, *_patches(request, artifacts)])


def _patches(request: Mapping[str, Any], artifacts: Path) -> tuple[str, str]:
    return artifact_patch(artifacts), mode_patch(Mode(request["execution_mode"]), request.get("output_schema"))


def artifact_patch(artifacts: Path) -> str:
    """Return where artifacts go; the same in both modes."""
    return (
        f"Write every file that is a result of your work below the directory {artifacts}. "
        "This overrides any other path for results that is named above."
    )


def mode_patch(mode: Mode, output_schema: dict[str, Any] | None) -> str:
    """Return how the agent must end its turn and whether it may ask its user.

    The rule on asking comes last, after the caller's schema, so that it overrides all text that is not ours.
    """
    final = f"{_FINAL}, with your result as the value of final_data"
    if output_schema is not None:
        final += f", which must be valid against this JSON Schema: {json.dumps(output_schema)}"
    if mode is Mode.AUTO:
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
