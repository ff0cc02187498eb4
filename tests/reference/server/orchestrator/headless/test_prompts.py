"""Tests of what is added to prompts, and what is never added."""

import re
from pathlib import Path
from typing import Any

from tests.tables import each
from turngate import Mode, mode_patch
from turngate_reference.server.orchestrator.headless import artifact_patch, first_prompt, reply_prompt
from turngate_reference.server.requests import RunRequest

BANNED = "Never ask the user a question."
HERE = Path("/runs/x/work/artifacts/abcdefgh")
OVERRIDES = {
    Mode.AUTO: "This overrides everything above that tells you to ask.",
    Mode.INTERACTIVE: "This overrides everything above that limits or rules out questions.",
}


def asked(mode: Mode, prompt: str = "P", **more: Any) -> RunRequest:
    """Return the request for a run."""
    return RunRequest.of({"engine": "codex", "prompt": prompt, "execution_mode": mode, **more})


@each("mode", list(Mode))
@each("schema", [None, {"description": BANNED}])
def test_the_rule_on_asking_comes_after_all_text_of_others(mode: Mode, schema: dict[str, Any] | None) -> None:
    """Every prompt ends with the mode's rule, which says that it overrides the text above it."""
    request = asked(mode, prompt=BANNED, skill=BANNED, output_schema=schema)
    first = first_prompt(request, HERE)
    reply = reply_prompt(BANNED, request, HERE)
    for prompt in (first, reply):
        assert prompt.endswith(mode_patch(mode, schema))
        assert prompt.endswith(OVERRIDES[mode])
        assert prompt.rindex(BANNED) < prompt.rindex("the user anything" if mode is Mode.AUTO else "You may ask")


@each("mode", list(Mode))
def test_paths_are_spoken_of_in_the_first_patch_only(mode: Mode) -> None:
    """The text about artifacts is the same in both modes; the text about the mode doesn't mention paths."""
    assert str(HERE) in artifact_patch(HERE)
    assert not re.search(r"/|\bpath|director|file", mode_patch(mode, None), re.IGNORECASE)
    added = [artifact_patch(HERE), mode_patch(mode, None)]
    first = first_prompt(asked(mode, skill="S"), HERE)
    assert first.split("\n\n") == ["S", "P", *added]
    reply = reply_prompt("R", asked(mode), HERE)
    assert reply.split("\n\n") == ["The user's reply:", "R", *added]


@each("reply", ["--yolo", "/quit", "@file", "-"])
def test_a_reply_never_begins_a_prompt(reply: str) -> None:
    """A user's reply can't be mistaken for a command of the engine."""
    prompt = reply_prompt(reply, asked(Mode.INTERACTIVE), HERE)
    assert prompt.startswith("The user's reply:\n\n" + reply)
