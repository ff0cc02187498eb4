"""What a schema can't say of the argv of a turn: everything has its place there, once, and nothing widens approval.

A template that lacks a place would drop what should stand there, and a resume without the session id is another
session.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from turngate.argv.auto_flags import auto_flags_in
from turngate.contract.load import Document, beside
from turngate.contract.structs import AutoFlag, Option
from turngate.errors import ContractError

_PLACES = {
    "start": {"{options}": 1, "{prompt}": 1, "{handle}": 0},
    "resume": {"{options}": 1, "{prompt}": 1, "{handle}": 1},
}
_WHAT = {"{options}": "the options", "{prompt}": "the prompt", "{handle}": "the session id"}


class _Flags(msgspec.Struct, frozen=True):
    """What the contract says of flags for some release that a launch holds for."""

    auto_flags: tuple[AutoFlag, ...]
    options: tuple[Option, ...]


def launch_errors(document: Document) -> Iterator[ContractError]:
    """Find slots that are missing, stand twice or where they may not, and flags that let an engine act unasked."""
    for i, launch in enumerate(document.data["launch"]):
        for key, places in _PLACES.items():
            yield from _slot_errors(document, ("launch", i, key), launch[key], places)
        for j, channel in enumerate(launch["prompt"]):
            wanted = {"{text}": 1 if channel["via"] == "argument" else 0}
            yield from _slot_errors(document, ("launch", i, "prompt", j, "tokens"), channel["tokens"], wanted)
        yield from _widening(document, i, launch)


def _slot_errors(
    document: Document, at: tuple[str | int, ...], tokens: Sequence[str], wanted: Mapping[str, int]
) -> Iterator[ContractError]:
    for slot, count in wanted.items():
        places = [i for i, token in enumerate(tokens) if slot in token]
        what = _WHAT.get(slot, "the prompt")
        if len(places) < count:
            yield document.error(at, f"has no place for {what}", f"put {slot} where it stands")
        elif len(places) > count:
            message = f"has more than one place for {what}" if count else f"can't hold {what}"
            yield document.error((*at, places[count]), message, f"take {slot} out")


def _widening(document: Document, i: int, launch: Mapping[str, Any]) -> Iterator[ContractError]:
    """Find flags that are passed in mode interactive, where nothing may widen approval."""
    held = {key: [dict(each) for each in beside(document, key, launch)] for key in ("auto_flags", "options")}
    flags = msgspec.convert(held, _Flags)
    passed: dict[tuple[str | int, ...], Sequence[str]] = {
        (key,): launch.get(key, ()) for key in (*_PLACES, "interactive")
    }
    passed |= {
        ("prompt", j, "tokens"): [token for token in channel["tokens"] if "{text}" not in token]
        for j, channel in enumerate(launch["prompt"])
    }
    for key, tokens in passed.items():
        for found in auto_flags_in(tokens, flags):
            message = f"{found} lets the engine act without asking, and would be passed in mode interactive"
            yield document.error(("launch", i, *key), message, "pass it under `auto` alone")
