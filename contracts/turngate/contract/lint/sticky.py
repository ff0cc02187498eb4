"""How a kept process is run: its transport, its commands and questions, and its files."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from turngate.contract.load import Document
from turngate.contract.versions import Claim
from turngate.errors import ContractError

_PROMPT = "{text}"
# the keys of `interactive` and `auto` that only some transports send or confirm
_MODE_KEYS = {
    "session": ("app_server",),
    "expect": ("app_server",),
    "turn": ("app_server",),
    "mode": ("acp", "stream_json"),
}
# the keys that nothing reads without a transport
_OF_A_PROCESS = (
    "argv",
    "options",
    "interactive",
    "auto",
    "permission_requests",
    "one_time",
)
_LASTING = re.compile(r"always|session|amendment", re.IGNORECASE)


def sticky_errors(document: Document, sticky: Claim) -> Iterator[ContractError]:
    """Find options that are undeclared or have no slot, and answers that grant more than one action."""
    flags = {option.data["flag"] for option in document.claims("options")}
    for j, flag in enumerate(sticky.data.get("options", ())):
        if flag not in flags:
            message = f"{flag} isn't a declared option"
            yield document.error(sticky.at("options", j), message, "declare it under `options`")
    modes = [sticky.data, *(sticky.data.get(mode, {}) for mode in ("interactive", "auto"))]
    if any(mode.get("options") for mode in modes) and "{options}" not in sticky.data.get("argv", ()):
        yield document.error(sticky.at("argv"), "has no slot for options", "add {options} where they belong")
    yield from command_errors(document, sticky)
    for key, word in sticky.data.get("one_time", {}).items():
        if _LASTING.search(word):
            hint = "use the word that covers only one action"
            yield document.error(sticky.at("one_time", key), f"{word} covers more than one action", hint)


def transport_errors(document: Document, sticky: Claim) -> Iterator[ContractError]:
    """Find a transport that can't start, that can't set what the contract asks for, or that nothing uses."""
    transport = sticky.data.get("transport", "none")
    if transport == "none":
        for key in _OF_A_PROCESS:
            if key in sticky.data:
                message = "is never used without a transport"
                yield document.error(sticky.at(key), message, f"name the transport, or remove `{key}`", of_key=True)
        return
    if "argv" not in sticky.data:
        yield document.error(sticky.at(), f"{transport} has no `argv`", "add the arguments that start the process")
    yield from _mode_errors(document, sticky, transport)
    yield from _model_errors(document, sticky, transport)


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
        approval = sticky.data.get(mode, {})
        texts = {"options": approval.get("options", ()), "env": approval.get("env", {}).values()}
        using = [key for key, values in texts.items() if any("{files}" in text for text in values)]
        if using and not approval.get("files") and not guarded:
            yield document.error(
                sticky.at(mode, using[0]), "{files} is empty", "list the files under `files`, here or in `guards`"
            )
        if approval.get("files") and not using:
            hint = "name their folder as {files} in `options` or `env`"
            yield document.error(sticky.at(mode, "files"), "nothing uses these files", hint)


def _slots(template: Any) -> int:
    """Count the places for the prompt in a command."""
    if isinstance(template, Mapping):
        return sum(map(_slots, template.values()))
    if isinstance(template, list):
        return sum(map(_slots, template))
    return int(template == _PROMPT)


def _mode_errors(document: Document, sticky: Claim, transport: str) -> Iterator[ContractError]:
    for mode in ("interactive", "auto"):
        for key in sticky.data.get(mode, {}):
            if transport not in _MODE_KEYS.get(key, (transport,)):
                hint = f"only {' and '.join(_MODE_KEYS[key])} can: remove `{key}`"
                yield document.error(sticky.at(mode, key), f"{transport} can't use `{key}`", hint, of_key=True)


def _model_errors(document: Document, sticky: Claim, transport: str) -> Iterator[ContractError]:
    by = sticky.data.get("model", "argument")
    takes_options = "{options}" in sticky.data.get("argv", ())
    if by == "session" and transport in ("stream_json", "json_commands"):
        yield document.error(sticky.at("model"), f"{transport} chooses no model by request", "write `argument`")
    if by == "argument" and not takes_options and any(c.data.get("model") for c in document.meeting("launch", sticky)):
        yield document.error(sticky.at("argv"), "has no slot for the model's option", "add {options} where it belongs")
