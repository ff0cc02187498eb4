"""Adds two texts to every prompt: where artifacts go, then how to end a turn and whether the agent may ask."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from turngate import mode_patch


def first_prompt(request: Mapping[str, Any], artifacts: Path) -> str:
    """Return what an engine gets on turn 1 of a requested run: skill, prompt, artifact patch, mode patch."""
    return "\n\n".join(filter(None, [request.get("skill"), request["prompt"], *_patches(request, artifacts)]))


def reply_prompt(reply: str, request: Mapping[str, Any], artifacts: Path) -> str:
    """Return what an engine gets when the user has answered: reply, artifact patch, mode patch.

    The text before the reply keeps engines from treating a leading `/`, `@` or `-` as a command or option.
    """
    return "\n\n".join(["The user's reply:", reply, *_patches(request, artifacts)])


def _patches(request: Mapping[str, Any], artifacts: Path) -> tuple[str, str]:
    return artifact_patch(artifacts), mode_patch(request["execution_mode"], request.get("output_schema"))


def artifact_patch(artifacts: Path) -> str:
    """Return where artifacts go; the same in both modes."""
    return (
        f"Write every file that is a result of your work below the directory {artifacts}. "
        "This overrides any other path for results that is named above."
    )
