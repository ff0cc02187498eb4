"""The options that a simulated engine accepts: those of its contract, and those that its simulation adds."""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from turngate import EngineContract
from turngate.contract.simulation import ArgumentSyntax

_SHOWN = re.compile(r"(?P<names>-[^<\[]*?)\s*(?P<value>[<\[].*?[>\]])?(?P<again>\.\.\.)?")


class AcceptedOption(Struct, frozen=True):
    """An option: its usual name, and the name of its value as messages show it, empty for a switch."""

    name: str
    value: str = ""
    optional: bool = False
    several: bool = False
    repeatable: bool = False

    @property
    def shown(self) -> str:
        """The option with its value, as messages show it."""
        return f"{self.name} {self.value}".strip()


Accepted = Mapping[str, AcceptedOption]


def accepted(contract: EngineContract, syntax: ArgumentSyntax) -> Accepted:
    """Return every option by each of its spellings."""
    options = dict[str, AcceptedOption]()
    for shown in syntax.options:
        names, option = _parsed(shown)
        options |= dict.fromkeys(names, option)
    for spelled, value, repeatable in (*_listed(contract), *_in_templates(contract)):
        known = next((options[name] for name in spelled if name in options), None)
        option = known or AcceptedOption(spelled[0], "<value>" if value else "")
        option = replace(option, repeatable=option.repeatable or repeatable)
        spellings = [name for name, other in options.items() if other == known]
        options |= dict.fromkeys((*spelled, *spellings), option)
    for spelling, usual in syntax.spellings.items():
        if usual in options:
            options[spelling] = options[usual]
    return options


def _parsed(shown: str) -> tuple[list[str], AcceptedOption]:
    """Read an option as help pages show it."""
    match = _SHOWN.fullmatch(shown)
    names = re.split(r"[,\s]+", match["names"].strip()) if match else [shown]
    value = match["value"] or "" if match else ""
    name = next((name for name in names if name.startswith("--")), names[0])
    several = value.endswith(("...>", "...]"))
    again = several or bool(match and match["again"])
    return names, AcceptedOption(name, value, value.startswith("["), several, again)


def _listed(contract: EngineContract) -> Iterator[tuple[tuple[str, ...], bool, bool]]:
    """Yield the options that the contract lists: spellings, whether it has a value, and whether it may be repeated."""
    for option in contract.options:
        yield (option.flag, *option.aliases), option.value != "none", option.value == "many"
    listed = {name for option in contract.options for name in (option.flag, *option.aliases)}
    for flag in contract.auto_flags:
        if flag.flag not in listed:
            yield (flag.flag, *flag.aliases), flag.safe_values is not None or bool(flag.keys), bool(flag.keys)


def template_options(template: Iterable[str]) -> list[tuple[str, str | None]]:
    """Return the options of a template, with their values (None: a switch)."""
    options: list[tuple[str, str | None]] = []
    for token, following in pairwise((*template, "--")):
        if token.startswith("-") and token not in ("-", "--"):
            name, equals, value = token.partition("=")
            slot = following in ("{options}", "{prompt}")
            options.append((name, value if equals else None if slot or following.startswith("-") else following))
    return options


def commands(template: Iterable[str]) -> tuple[str, ...]:
    """Return the commands in a template: its words that are neither slots nor options nor their values."""
    tokens = tuple(template)
    values = {value for _, value in template_options(tokens)}
    return tuple(token for token in tokens if not token.startswith(("-", "{")) and token not in values)


def _in_templates(contract: EngineContract) -> Iterator[tuple[tuple[str, ...], bool, bool]]:
    """Yield the options that the contract's own templates use."""
    launch, sticky = contract.launch, contract.sticky
    stances = [stance.options for stance in (sticky.interactive, sticky.auto) if stance]
    prompts = [channel.tokens for channel in launch.prompt]
    templates: Iterable[Iterable[str]] = (
        launch.start, launch.resume, launch.auto, launch.interactive, launch.model, sticky.argv, *prompts, *stances,
    )  # fmt: skip
    for template in templates:
        yield from (((name,), value is not None, False) for name, value in template_options(template))
