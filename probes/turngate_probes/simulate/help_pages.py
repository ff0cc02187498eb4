"""Which options and commands a release has, as the help pages in the engine's history show them.

A release lacks an option that only later ones show. If it was not asked for its help page, it lies between two that
were, and nothing is known of an option that the later one is the first to show. An option that is no longer shown may
still be accepted, so that says nothing.

A release has the commands that it lists. If it was not asked, it has those that both the release before it and the one
after it list; of those that only one of them lists, nothing is known. A command that nobody lists may be an alias, so
that says nothing.
"""

import re
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from turngate import NotFoundError, history
from turngate.contract.simulation import ArgumentSyntax, Simulation, StickySimulation
from turngate.contract.versions import parse

_SECTION = "option/"
_COMMANDS = "command/any list"
_ASK = frozenset({"--help", "--version"})
_NAME = re.compile(r"(?<![\w<\[-])-{1,2}\w[\w-]*")
_TYPE = re.compile(r"\[(boolean|count|string|number|array)\]")  # as yargs shows the type of a value
_VALUES = {"boolean": "", "count": "", "string": "<string>", "number": "<number>", "array": "<array>..."}
_VALUE = re.compile(r"[<\[][^>\]]*[>\]](\.\.\.)?")
_CHOICES = re.compile(r'choices: ((?:"[^"]+"(?:, )?)+)')


class _Page(Struct, frozen=True):
    """A help page at one release: what is shown, the options that only later releases show, and those that may be new.

    `shown` is what the last release shows that was asked, with the value of each option.
    """

    shown: Mapping[str, str]
    lacking: frozenset[str]
    untested: frozenset[str]


def of_release(simulation: Simulation, engine: str, version: str) -> Simulation:
    """Return the simulation with the options and commands of a release; unchanged if no history knows any."""
    try:
        known = history.load(engine)
    except NotFoundError:
        return simulation
    syntax, pages = simulation.arguments, _pages(known, version)
    syntax = _with_pages(syntax, pages) if pages else syntax
    sticky = _with_modes(simulation.sticky, syntax)
    return replace(simulation, arguments=_with_commands(syntax, known, version), sticky=sticky)


def _with_modes(sticky: StickySimulation, syntax: ArgumentSyntax) -> StickySimulation:
    """Return the sticky process with the session modes that an option of the release offers, in whatever spelling."""
    option = sticky.acp.mode_option
    if option is None:
        return sticky
    offered = {_letters(choice) for choice in syntax.choices[option]}
    modes = tuple(mode for mode in sticky.acp.modes if _letters(mode["id"]) in offered)
    starts_in = sticky.starts_in if _letters(sticky.starts_in or "") in offered else None
    return replace(sticky, acp=replace(sticky.acp, modes=modes), starts_in=starts_in)


def _letters(name: str) -> str:
    return re.sub("[-_]", "", name).lower()


def _with_commands(syntax: ArgumentSyntax, known: history.History, version: str) -> ArgumentSyntax:
    """Return the syntax with the commands that the release has or may have, and the answers that are known of it."""
    listed = [(parse(one.version), _paths(one.facts[_COMMANDS])) for one in known.releases if _COMMANDS in one.facts]
    everywhere = dict.fromkeys(path for _, paths in listed for path in paths)
    wanted = parse(version)

    def has(path: str, since: str | None = None) -> bool | None:
        """Whether the release has a command; None: nobody knows."""
        if path.startswith("-"):
            return None if path in syntax.untested else path not in syntax.lacking.get("", ())
        if path not in everywhere and since is None:
            return True
        asked = [(at, path in paths) for at, paths in listed if path in everywhere]
        asked = sorted([*asked, *([(parse(since), True)] if since else [])])
        before, after = ([has for at, has in asked if (at <= wanted) is early] for early in (True, False))
        exact = any(at == wanted for at, _ in asked)
        if not before:
            return None if after[0] else False
        return before[-1] if exact or not after or after[0] == before[-1] else None

    names = {*syntax.commands, *(path.split()[0] for path in everywhere)}
    had = {name: has(name) for name in sorted(names)}
    answers = {name: has(name, answer.since) for name, answer in syntax.queries.items()}
    unknown = [name for name, one in {**had, **answers}.items() if one is None]
    return replace(
        syntax,
        commands=tuple(dict.fromkeys((*(name for name, one in had.items() if one), *unknown))),
        queries={name: answer for name, answer in syntax.queries.items() if answers[name]},
        untested=tuple(dict.fromkeys((*syntax.untested, *unknown))),
    )


def _paths(page: Mapping[str, str]) -> frozenset[str]:
    """Return the commands in a list of commands and their options, without the executable."""
    return frozenset(" ".join(name.split()[1:]) for name in page if ":" not in name and " -" not in name)


def _pages(known: history.History, version: str) -> dict[str, _Page]:
    """Return the help page of each command, by its words after the executable."""
    sections = dict.fromkeys(name for release in known.releases for name in release.facts if name.startswith(_SECTION))
    pages, wanted = {}, parse(version)
    for section in sections:
        asked = [(parse(one.version), one.facts[section]) for one in known.releases if section in one.facts]
        before = [pair for pair in asked if pair[0] <= wanted]
        later = [page for at, page in asked if at > wanted]
        if not before:
            continue
        had = {*_ASK, *(option for _, page in before for option in page)}
        new = frozenset(option for page in later for option in page) - had
        first = frozenset(later[0]) & new if later and before[-1][0] != wanted else frozenset[str]()
        words = (word for word in section.removeprefix(_SECTION).split()[1:] if not word.startswith("-"))
        pages[" ".join(words)] = _Page(before[-1][1], new - first, first)
    return pages


def _with_pages(syntax: ArgumentSyntax, pages: Mapping[str, _Page]) -> ArgumentSyntax:
    """Return the syntax with what the release lacks, what is not known of it, and what its pages show beside it."""
    spelled = [_NAME.findall(text) for text in syntax.options]

    def lacking(page: _Page) -> frozenset[str]:
        """Return the options that are there under no spelling."""
        return page.lacking - {name for group in spelled if not page.shown.keys().isdisjoint(group) for name in group}

    # before a command, an option is one of those that the pages of the commands show
    everywhere = frozenset.intersection(*map(lacking, pages.values()))
    shown = {option: value for page in pages.values() for option, value in page.shown.items()}
    # what is another spelling today was an option of its own before there was the usual one
    spellings = {
        name: usual for name, usual in syntax.spellings.items() if name not in shown or usual not in everywhere
    }
    known = {
        *_ASK,
        *syntax.commands,
        *syntax.queries,
        *spellings,
        *(name for group in spelled for name in group),
    }
    return replace(
        syntax,
        spellings=spellings,
        unplayed=tuple(_text(name, value) for name, value in shown.items() if name not in known),
        choices={name: _choices(shown.get(name, "")) or usual for name, usual in syntax.choices.items()},
        lacking={"": tuple(sorted(everywhere))} | {words: tuple(sorted(lacking(one))) for words, one in pages.items()},
        untested=tuple(sorted(frozenset[str]().union(*(page.untested for page in pages.values())))),
    )


def _text(name: str, value: str) -> str:
    """Return an option as help pages show it, from what the history keeps of it: its value, or the type of that."""
    if (kind := _TYPE.match(value)) is not None:
        return f"{name} {_VALUES[kind[1]]}".rstrip()
    shown = _VALUE.match(value)
    return f"{name} {shown[0]}" if shown else name


def _choices(value: str) -> tuple[str, ...]:
    """Return the values that a help page offers for an option; none if it does not say."""
    listed = _CHOICES.search(value)
    return tuple(re.findall(r'"([^"]+)"', listed[1])) if listed else ()
