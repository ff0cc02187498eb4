"""What a schema can't say of the argv of a turn: everything has its place there, once, and nothing widens approval.

A template that lacks a place would drop what should stand there, and a resume without the session id is another
session.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from turngate.argv.auto_flags import Flags, auto_flags_in
from turngate.contract.load import Document
from turngate.contract.versions import Claim, Path_
from turngate.errors import ContractError

_PLACES = {
    "start": {"{options}": 1, "{prompt}": 1, "{handle}": 0},
    "resume": {"{options}": 1, "{prompt}": 1, "{handle}": 1},
}
_WHAT = {"{options}": "the options", "{prompt}": "the prompt", "{handle}": "the session id"}


def launch_errors(document: Document, launch: Claim) -> Iterator[ContractError]:
    """Find slots that are missing, stand twice or where they may not, and flags that let an engine act unasked."""
    held = {key: [claim.data for claim in document.meeting(key, launch)] for key in ("auto_flags", "options")}
    flags = msgspec.convert(held, Flags)
    for key, places in _PLACES.items():
        yield from _slot_errors(document, launch.at(key), launch.data[key], places)
        yield from _widening(document, launch.at(key), launch.data[key], flags)
    for j, channel in enumerate(launch.data["prompt"]):
        at, text = launch.at("prompt", j, "tokens"), {"{text}": int(channel["via"] == "argument")}
        yield from _slot_errors(document, at, channel["tokens"], text)
        yield from _widening(document, at, [token for token in channel["tokens"] if "{text}" not in token], flags)
    yield from _widening(document, launch.at("interactive"), launch.data.get("interactive", ()), flags)


def _slot_errors(
    document: Document, at: Path_, tokens: Sequence[str], wanted: Mapping[str, int]
) -> Iterator[ContractError]:
    for slot, count in wanted.items():
        places = [i for i, token in enumerate(tokens) if slot in token]
        what = _WHAT.get(slot, "the prompt")
        if len(places) < count:
            yield document.error(at, f"has no place for {what}", f"put {slot} where it stands")
        elif len(places) > count:
            message = f"has more than one place for {what}" if count else f"can't hold {what}"
            yield document.error((*at, places[count]), message, f"take {slot} out")


def _widening(document: Document, at: Path_, tokens: Sequence[str], flags: Flags) -> Iterator[ContractError]:
    """Find flags that are passed in mode interactive, where nothing may widen approval."""
    for flag in auto_flags_in(tokens, flags):
        message = f"{flag} lets the engine act without asking, and would be passed in mode interactive"
        yield document.error(at, message, "pass it under `auto` alone")
