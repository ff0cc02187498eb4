"""Reads what plain commands list of a release: its subcommands with their options, variables, features and models.

A subcommand is named with the commands before it, as in `codex app-server`, and its option as in
`codex app-server: --listen`.
"""

import re
from collections.abc import Iterable, Mapping

from turngate import Ended
from turngate.contract.launch import Listing
from turngate.history import FROM_LIST, HIDDEN_COMMAND, Kind
from turngate_probes.harness.subcommands import CASE, HELP, subcommands
from turngate_probes.journal.events import Event, PageEvent
from turngate_probes.journal.protocol import protocol

MOST = 4000
LONGEST = 160
_PLACEHOLDER = re.compile(r"<[^<>\n]*>|\[(?!env)[^\[\]\n]*\]|(?<![\w-])--[\w-]+[ =][A-Z][A-Z0-9_]+")
_VARIABLE = re.compile(r"(?<![\w-])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![\w*])")


def listed(listing: Listing, command: tuple[str, ...], text: str, options: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return what a command printed, by kind of thing; `command` is the program with the subcommands of the page."""
    name = " ".join(command)
    if listing.what == "protocol":
        return {Kind.PROTOCOL: protocol(listing, text)}
    if listing.pattern is not None:
        found = sorted({match["name"][:LONGEST] for match in re.finditer(listing.pattern, text)})[:MOST]
        if listing.what != "command":
            return {listing.what: dict.fromkeys(found, "")}
        return {Kind.COMMAND: {f"{name} {item}": HIDDEN_COMMAND for item in found if item not in HELP}}
    taken = (option.partition(" ") for option in options)
    commands = {f"{name} {sub}": "" for sub in subcommands(text, command)} | {
        f"{name}: {option}": value for option, _, value in taken if option not in HELP
    }
    return {Kind.COMMAND: commands, Kind.VARIABLE: dict.fromkeys(variables(text), "")}


def variables(text: str) -> tuple[str, ...]:
    """Return the environment variables that a help page names, which are no placeholders of values."""
    return tuple(sorted(set(_VARIABLE.findall(_PLACEHOLDER.sub(" ", text))))[:MOST])


def sections(events: Iterable[Event]) -> Mapping[str, Mapping[str, str]]:
    """Return what a release lists, in sections as the history has them; none if a page was cut.

    A command that a page names is not hidden. An option that a command above takes too is left out.
    """
    pages = [event for event in events if isinstance(event, PageEvent) and event.case == CASE]
    if any(page.ended is not Ended.EXIT for page in pages):
        return {}
    merged = dict[str, dict[str, str]]()
    for page in pages:
        for kind, names in (page.listed or {}).items():
            known = merged.setdefault(kind, {})
            known.update({name: value for name, value in names.items() if value != HIDDEN_COMMAND or name not in known})
    commands = merged.get(Kind.COMMAND, {})
    for name, value in [*commands.items()]:
        if _inherited(name, value, commands):
            del commands[name]
    return {f"{kind}/{FROM_LIST}": names for kind, names in merged.items() if names}


def _inherited(name: str, value: str, commands: Mapping[str, str]) -> bool:
    command, colon, option = name.partition(": ")
    above = command.rpartition(" ")[0]
    while colon and above:
        if commands.get(f"{above}: {option}") == value:
            return True
        above = above.rpartition(" ")[0]
    return False
