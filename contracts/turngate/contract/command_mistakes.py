"""Checks of the transport json_commands that a schema can't express: commands that can't work, and missing answers."""

from collections.abc import Iterator, Mapping
from typing import Any

from turngate.contract.load import Document
from turngate.contract.versions import Claim
from turngate.errors import ContractError

_PROMPT = "{text}"


def command_errors(document: Document, sticky: Claim) -> Iterator[ContractError]:
    """Find commands without the prompt or with an id of their own, and questions and files that nothing uses."""
    yield from _file_errors(document, sticky)
    if (commands := sticky.data.get("commands")) is None:
        return
    sent = {"prompt": commands["prompt"], "abort": commands["abort"], "session": commands["session"]["command"]}
    for name, command in sent.items():
        at = sticky.at("commands", *(("session", "command") if name == "session" else (name,)))
        if commands["id"] in command:
            hint = "remove it: each command gets its own"
            yield document.error((*at, commands["id"]), "a command can't have a fixed id", hint)
        if _slots(command) != (name == "prompt"):
            what = "has no slot for the prompt" if name == "prompt" else "can't hold the prompt"
            hint = "write {text} as the whole value" if name == "prompt" else "remove {text}"
            yield document.error(at, what, hint)
    for events in document.meeting("events", sticky):
        kind = commands["ended"].get(events.data.get("field"))
        if kind is not None and kind not in events.data["names"]:
            at = sticky.at("commands", "ended")
            yield document.error(at, f"{kind} isn't a known event", "add it to the names of `events`")
    asks, questions = sticky.data.get("permission_requests"), commands.get("questions")
    if asks and questions is None:
        hint = "say under `questions` how the engine asks"
        yield document.error(sticky.at("permission_requests"), "the commands define no questions", hint)


def _file_errors(document: Document, sticky: Claim) -> Iterator[ContractError]:
    """Find files that nothing uses, and options and variables that use none, though `guards` may have some."""
    guarded = any("files" in guards.data for guards in document.meeting("guards", sticky))
    for mode in ("interactive", "auto"):
        stance = sticky.data.get(mode, {})
        texts = {"options": stance.get("options", ()), "env": stance.get("env", {}).values()}
        using = [key for key, values in texts.items() if any("{files}" in text for text in values)]
        if using and not stance.get("files") and not guarded:
            yield document.error(
                sticky.at(mode, using[0]), "{files} is empty", "list the files under `files`, here or in `guards`"
            )
        if stance.get("files") and not using:
            hint = "name their folder as {files} in `options` or `env`"
            yield document.error(sticky.at(mode, "files"), "nothing uses these files", hint)


def _slots(template: Any) -> int:
    """Count the places for the prompt in a command."""
    if isinstance(template, Mapping):
        return sum(map(_slots, template.values()))
    if isinstance(template, list):
        return sum(map(_slots, template))
    return int(template == _PROMPT)
