"""What lets an engine act without asking: allowed values of options, and the arguments of each way to start it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from turngate.argv.auto_flags import Flags, auto_flags_in
from turngate.contract.load import NONE, Document
from turngate.contract.versions import Claim, Path_
from turngate.decoding import convert
from turngate.errors import ContractError

_KINDS = ("values", "pattern", "path", "keys")
_PLACES = {
    "start": {"{options}": 1, "{prompt}": 1, "{handle}": 0},
    "resume": {"{options}": 1, "{prompt}": 1, "{handle}": 1},
}
_WHAT = {"{options}": "the options", "{prompt}": "the prompt", "{handle}": "the session id"}


def interactive_errors(document: Document, option: Claim) -> Iterator[ContractError]:
    """Find allowed uses that do not fit the option's value, or that let the engine act without asking."""
    use = option.data.get("interactive")
    if use is None:
        return
    at, kinds = option.at("interactive"), [kind for kind in _KINDS if kind in use]
    if option.data["value"] == "none":
        if kinds:
            yield document.error((*at, kinds[0]), "a switch takes no value", f"remove `{kinds[0]}`")
    elif len(kinds) != 1:
        message = f"has {' and '.join(kinds)}" if kinds else "does not say which values are allowed"
        yield document.error(at, message, f"write one of {', '.join(_KINDS)}")
    flags = flags_of(document, option)
    names = {name for flag in flags.auto_flags for name in (flag.flag, *flag.aliases)}
    for place, value in _samples(use):
        for name in (option.data["flag"], *option.data.get("aliases", ())):
            if value is None and name in names and "keys" not in use:
                message = f"{name} can let the engine act without asking"
                yield document.error(at, message, "list the safe values under `values`, or remove `interactive`")
            elif value is not None and auto_flags_in((name, value), flags):
                message = f"{name} {value} lets the engine act without asking"
                yield document.error((*at, *place), message, "remove it")


def flag_errors(document: Document, launch: Claim) -> Iterator[ContractError]:
    """Find arguments that no option declares."""
    options = [option.data for option in document.claims("options")]
    flags = {flag for option in options for flag in (option["flag"], *option.get("aliases", ()))}
    for key in ("auto", "interactive", "model", "options"):
        for j, token in enumerate(launch.data.get(key, ())):
            if token.startswith("-") and token.partition("=")[0] not in flags:
                message = f"{token} isn't a declared option"
                yield document.error(launch.at(key, j), message, "declare it under `options`")


def launch_errors(document: Document, launch: Claim) -> Iterator[ContractError]:
    """Find missing, repeated or misplaced slots, and flags that let an engine act without asking.

    A template without a slot would drop its value and could resume another session.
    """
    flags = flags_of(document, launch)
    for key, places in _PLACES.items():
        yield from _slot_errors(document, launch.at(key), launch.data[key], places)
        yield from auto_approving(document, launch.at(key), launch.data[key], flags)
    for j, channel in enumerate(launch.data["prompt"]):
        at, text = launch.at("prompt", j, "tokens"), {"{text}": int(channel["via"] == "argument")}
        yield from _slot_errors(document, at, channel["tokens"], text)
        yield from auto_approving(document, at, [token for token in channel["tokens"] if "{text}" not in token], flags)
    yield from auto_approving(document, launch.at("interactive"), launch.data.get("interactive", ()), flags)
    if launch.data["auto"] and any(NONE in claim.data for claim in document.claims("auto_flags")):
        message = "the contract says under `auto_flags` that the engine has no auto-approve option"
        yield document.error(launch.at("auto"), message, "leave `auto` empty, or list its options under `auto_flags`")


def absence_errors(document: Document, refused: Collection[str]) -> Iterator[ContractError]:
    """Find a contract that names nothing by which the engine acts unasked, and does not say that there is nothing."""
    if "launch" in document.data and "auto_flags" not in {*document.data, *refused}:
        hint = "list such options there, or write `auto_flags: {none: true, evidence: [...]}`"
        message = "names no option by which the engine acts without asking, and `auto_flags` is absent"
        yield document.error(("launch",), message, hint)


def guard_errors(document: Document, guards: Claim) -> Iterator[ContractError]:
    """Find guards that would let the engine act without asking."""
    flags = flags_of(document, guards)
    yield from auto_approving(document, guards.at("options"), guards.data.get("options", ()), flags)


def artifact_errors(document: Document, artifacts: Claim) -> Iterator[ContractError]:
    """Find options that let the engine write anywhere, or that don't name the directory, and files that none uses."""
    yield from guard_errors(document, artifacts)
    options, at = artifacts.data["options"], artifacts.at("options")
    named = {"{artifacts}": "the directory", **({"{files}": "the files"} if "files" in artifacts.data else {})}
    for slot, what in named.items():
        if not any(slot in token for token in options):
            yield document.error(at, f"no option names {what}", f"write {slot} where it belongs")


def flags_of(document: Document, claim: Claim) -> Flags:
    """Return the options of the releases of a claim, and what lets them act without asking."""
    held = {key: [other.data for other in document.meeting(key, claim)] for key in ("auto_flags", "options")}
    return convert(held, Flags)


def auto_approving(document: Document, at: Path_, tokens: Sequence[str], flags: Flags) -> Iterator[ContractError]:
    """Find flags that would widen approval in mode interactive."""
    for flag in auto_flags_in(tokens, flags):
        message = f"{flag} lets the engine act without asking, and would be passed in mode interactive"
        yield document.error(at, message, "pass it only under `auto`")


def _samples(use: Mapping[str, Any]) -> Iterator[tuple[Path_, str | None]]:
    """Return each allowed value with its path; None where any value of some shape is allowed."""
    for j, key in enumerate(use.get("keys", ())):
        for k, value in enumerate(key.get("values", ("any",))):
            place = ("values", k) if "values" in key else ("pattern",)
            yield ("keys", j, *place), f"{key['key']}={value}"
    for k, value in enumerate(use.get("values", ())):
        yield ("values", k), value
    if not {"keys", "values"} & use.keys():
        yield (), None


def _slot_errors(
    document: Document, at: Path_, tokens: Sequence[str], wanted: Mapping[str, int]
) -> Iterator[ContractError]:
    for slot, count in wanted.items():
        places = [i for i, token in enumerate(tokens) if slot in token]
        what = _WHAT.get(slot, "the prompt")
        if len(places) < count:
            yield document.error(at, f"has no slot for {what}", f"add {slot} where it belongs")
        elif len(places) > count:
            message = f"has more than one slot for {what}" if count else f"can't hold {what}"
            yield document.error((*at, places[count]), message, f"remove {slot}")
