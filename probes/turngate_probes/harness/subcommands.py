"""Reads the subcommands on help pages, whichever of the usual parsers of arguments prints them."""

import re
from collections.abc import Iterable, Iterator

CASE = "listings"
HELP = ("--help", "-h", "help")
_TITLE = re.compile(r"(?i)^[a-z ]{0,20}commands:?[ \t]*$")
_ENTRY = re.compile(r"^([ \t]+)(\S.*)$")
_NAME = re.compile(r"[a-z0-9][\w-]*")
# as argparse shows them
_CHOICES = re.compile(r"^ +\{([a-z0-9][\w,-]*)\}$", re.MULTILINE)


def subcommands(text: str, command: Iterable[str]) -> tuple[str, ...]:
    """Return the subcommands that a help page lists, without their aliases; `command` is what the page is about."""
    words = tuple(command)
    described = (name for group in _CHOICES.findall(text) for name in group.split(",") if f"\n    {name} " in text)
    names = dict.fromkeys(described)
    for line in _entries(text.splitlines()):
        own = line.split()
        # some name the program and the command again
        for word in words:
            own = own[1:] if own[:1] == [word] else own
        name = _NAME.match(own[0].partition("|")[0].rstrip(",")) if own else None
        if name and name[0] not in HELP:
            names[name[0]] = None
    return tuple(names)


def _entries(lines: Iterable[str]) -> Iterator[str]:
    """Yield the first lines of the entries below titles such as `Commands:`; a description is indented further."""
    inside, indent = False, ""
    for line in lines:
        entry = _ENTRY.match(line)
        if _TITLE.match(line):
            inside, indent = True, ""
        elif inside and entry:
            indent = indent or entry[1]
            if entry[1] == indent:
                yield entry[2]
        elif line.strip():
            inside = False
