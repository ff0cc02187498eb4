"""Reads what plain commands list of a release: its subcommands with their options, variables, features and models.

A subcommand is named with the commands before it, as in `codex app-server`, and its option as in
`codex app-server: --listen`.
"""

import re
from collections.abc import Iterable, Mapping
from itertools import takewhile

from turngate import Ended
from turngate.contract.launch import Listing
from turngate.history import FROM_LIST, HIDDEN_COMMAND, Kind
from turngate_probes.harness.session_file import STEP as SESSION
from turngate_probes.harness.subcommands import CASE, HELP, subcommands
from turngate_probes.journal.events import Event, PageEvent
from turngate_probes.journal.protocol import protocol

MOST = 4000
LONGEST = 160
_PLACEHOLDER = re.compile(r"<[^<>\n]*>|\[(?!env)[^\[\]\n]*\]|(?<![\w-])--[\w-]+[ =][A-Z][A-Z0-9_]+")
# an option with its whole description, which is indented further
_DESCRIBED = re.compile(r"^[ \t]{0,8}-{1,2}[A-Za-z][^\n]*(?:\n(?:[ \t]{9}[^\n]*|[ \t]*(?=\n)))*", re.MULTILINE)
_LONG = re.compile(r"(?<![\w-])--[A-Za-z][\w-]*")
_CHOICE = re.compile(r"^\s*- ([\w-]+)(?=:|$)", re.MULTILINE)
_VARIABLE = re.compile(r"(?<![\w-])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![\w*])")


def listed(listing: Listing, command: tuple[str, ...], text: str, options: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return what a command printed, by kind of thing; `command` is the program with the subcommands of the page."""
    name = " ".join(command)
    if listing.what == "protocol":
        return {Kind.PROTOCOL: protocol(listing.unions, text)}
    if listing.pattern is not None:
        found = sorted({match["name"][:LONGEST] for match in re.finditer(listing.pattern, text)})[:MOST]
        if listing.what != "command":
            return {listing.what: dict.fromkeys(found, "")}
        return {Kind.COMMAND: {f"{name} {item}": HIDDEN_COMMAND for item in found if item not in HELP}}
    taken, words = (option.partition(" ") for option in options), choices(text)
    commands = {f"{name} {sub}": "" for sub in subcommands(text, command)} | {
        f"{name}: {option}": value if "[possible values" in value else f"{value}{words.get(option, '')}".strip()
        for option, _, value in taken
        if option not in HELP
    }
    return {Kind.COMMAND: commands, Kind.VARIABLE: dict.fromkeys(variables(text), "")}


def variables(text: str) -> tuple[str, ...]:
    """Return the environment variables that a help page names, which are no placeholders of values."""
    return tuple(sorted(set(_VARIABLE.findall(_PLACEHOLDER.sub(" ", text))))[:MOST])


def choices(text: str) -> Mapping[str, str]:
    """Return the possible values of options, where a help page lists them below an empty line or one a line."""
    found = dict[str, str]()
    for block in _DESCRIBED.findall(text):
        names = _LONG.findall(block.partition("\n")[0])
        _, title, rest = block.partition("ossible values:")
        if names and title:
            below = _CHOICE.findall(rest)
            found[names[0]] = f" [possible values: {', '.join(below) or ' '.join(rest.partition(']')[0].split())}]"[
                :LONGEST
            ]
    return found


def sections(events: Iterable[Event]) -> Mapping[str, Mapping[str, str]]:
    """Return what a release lists, in sections as the history has them; none if a page was cut.

    A command that a page names is not hidden. An option that a command above takes too is left out, and so are those of
    the help pages of the contract, which are facts of their own.
    """
    shown = [event for event in events if isinstance(event, PageEvent)]
    pages = [page for page in shown if page.case == CASE or page.step == SESSION]
    if any(page.ended is not Ended.EXIT for page in pages):
        return {}
    merged = dict[str, dict[str, str]]()
    for page in pages:
        for kind, names in (page.listed or {}).items():
            known = merged.setdefault(kind, {})
            known.update({name: value for name, value in names.items() if value != HIDDEN_COMMAND or name not in known})
    commands = merged.get(Kind.COMMAND, {})
    apart = {" ".join(takewhile(lambda word: not word.startswith("-"), page.argv)) for page in shown if page.options}
    for name, value in [*commands.items()]:
        command, colon, _ = name.partition(": ")
        if (colon and command in apart) or _inherited(name, value, commands):
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
