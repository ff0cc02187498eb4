"""What of an engine can be compared between releases: kinds of records, their key paths, the names on a help page."""

import re
from collections.abc import Iterator
from typing import Any

from turngate.contract.help_page import missing
from turngate.contract.structs import EngineContract
from turngate.turn.framing import framer
from turngate.turn.records import Record, value_at
from turngate_probes.harness.observations import CommandOutput, Turn

MOST = 400
LONGEST = 160
DEEPEST = 6
_LONG = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*")
# a short option counts where a line begins with it, or where it stands beside a long one
_SHORT = re.compile(
    r"^\s*(-[A-Za-z])(?=[\s,=]|$)|(?<![\w-])(-[A-Za-z])(?=,\s*--)|(?<=,\s)(-[A-Za-z])(?=[\s,]|$)", re.MULTILINE
)


def keys_of(turn: Turn, contract: EngineContract) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """List the kinds of a turn's records, and the key paths in them."""
    kinds = tuple(turn.reading.census)
    # a sticky process prints a protocol, of which the contract's framing knows nothing
    records = _records(turn, contract) if kinds else []
    return kinds[:MOST], tuple(sorted(set(_paths(records, contract.events.field)))[:MOST])


def names(page: CommandOutput, contract: EngineContract) -> tuple[str, ...]:
    """List the options that a help page names, and the other words that the contract looks for there."""
    number = page.name.rpartition("-")[2]
    if not page.name.startswith("static/help-") or not number.isdigit():
        return ()
    wanted = contract.help.pages[int(number) - 1]
    text = (page.stdout if wanted.stream == "stdout" else page.stderr).decode("utf-8", "replace")
    named = set(_LONG.findall(text)) | {next(filter(None, groups)) for groups in _SHORT.findall(text)}
    named |= set(wanted.names) - set(missing(wanted, text))
    return tuple(sorted(name[:LONGEST] for name in named)[:MOST])


def _records(turn: Turn, contract: EngineContract) -> list[Record]:
    stream = contract.events.stream
    cut = framer(contract.stream(stream))
    return [*cut.feed(turn.stdout if stream == "stdout" else turn.stderr), *cut.finish()]


def _paths(records: list[Record], field: str | None) -> Iterator[str]:
    """Name every key as `kind: path`; where records have no kind the path stands alone."""
    for record in records:
        kind = f"{value_at(record, field)}: " if field else ""
        for path in _below(record, "", 1):
            yield f"{kind}{path}"[:LONGEST]


def _below(value: Any, above: str, depth: int) -> Iterator[str]:
    if depth > DEEPEST:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            yield f"{above}{key}"
            yield from _below(item, f"{above}{key}.", depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _below(item, f"{above.removesuffix('.')}[].", depth)
