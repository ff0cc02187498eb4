"""Reads the arguments of an engine with its contract: the reverse of `turngate.argv.build`."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile

from turngate import EngineContract
from turngate.argv.auto_flags import auto_flags_in
from turngate.contract.launch import Option, PromptChannel


@dataclass(frozen=True, slots=True)
class Asked:
    """What the arguments ask for; `prompt` None: it is on standard input."""

    handle: str | None
    prompt: str | None
    channel: PromptChannel
    model: str
    auto: bool


class UsageProblem(Exception):  # noqa: N818 - what a user did, not an error of ours
    """The contract does not know these arguments; the text names the first unknown one."""


@dataclass(slots=True)
class _Reader:
    """Matches arguments with a template from left to right; `at` is the current position.

    `valued` are the options that it takes, and whether they have a value.
    """

    argv: Sequence[str]
    valued: Mapping[str, bool]
    at: int = 0
    options: list[str] = field(default_factory=list)
    slots: dict[str, str] = field(default_factory=dict)

    def read(self, template: Iterable[str]) -> bool:
        """Match the whole template with all arguments."""
        for token in template:
            if token == "{options}":
                self._take_options()
            elif not self._take(token):
                return False
        return self.at == len(self.argv)

    def _take(self, token: str) -> bool:
        """Match one token, which may contain a slot."""
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.*)", re.escape(token))
        match = re.fullmatch(pattern, self.argv[self.at], re.DOTALL) if self.at < len(self.argv) else None
        if match is None:
            return False
        self.slots |= match.groupdict()
        self.at += 1
        return True

    def _take_options(self) -> None:
        """Take every option, with its value."""
        while self.at < len(self.argv):
            name, equals, _ = self.argv[self.at].partition("=")
            if name not in self.valued:
                return
            width = 2 if self.valued[name] and not equals else 1
            self.options += self.argv[self.at : self.at + width]
            self.at += width


def read(contract: EngineContract, argv: Sequence[str]) -> Asked:
    """Read the arguments after the executable; UsageProblem if no template of the contract matches."""
    valued = {
        name: flag.safe_values is not None or bool(flag.keys)
        for flag in contract.auto_flags
        for name in (flag.flag, *flag.aliases)
    } | _valued(contract.options)
    furthest = 0
    for template in (contract.launch.resume, contract.launch.start):
        for channel in contract.launch.prompt:
            reader = _Reader(argv, valued)
            tokens = (part for token in template for part in (channel.tokens if token == "{prompt}" else (token,)))
            if reader.read(tokens):
                model, auto = _model(contract, reader.options), bool(auto_flags_in(reader.options, contract))
                return Asked(reader.slots.get("handle"), reader.slots.get("text"), channel, model, auto)
            furthest = max(furthest, reader.at)
    raise _unread(argv, furthest)


def is_sticky(contract: EngineContract, argv: Sequence[str]) -> bool:
    """Whether the arguments start a sticky process."""
    words = tuple(takewhile(lambda word: word != "{options}", contract.sticky.argv))
    return bool(words) and tuple(argv[: len(words)]) == words


def read_sticky(contract: EngineContract, argv: Sequence[str]) -> tuple[list[str], str]:
    """Return the options and the model of a sticky process; UsageProblem if it does not accept its arguments."""
    kept = contract.sticky
    model = contract.launch.model[:1] if kept.model == "argument" else ()
    taken = {*kept.options, *(token.partition("=")[0] for token in model)}
    valued = _valued(option for option in contract.options if option.flag in taken)
    for stance in filter(None, (kept.interactive, kept.auto)):
        for token, following in pairwise((*stance.options, "-")):
            if token.startswith("-"):
                valued[token] = not following.startswith("-")
    reader = _Reader(argv, valued)
    if not reader.read(kept.argv):
        raise _unread(argv, reader.at)
    return reader.options, _model(contract, reader.options)


def refusal(channel: PromptChannel, prompt: str) -> str | None:
    """Return why its channel can't carry a prompt, if the contract says so."""
    return next((refusal.why for refusal in channel.refuses if re.search(refusal.pattern, prompt)), None)


def _valued(options: Iterable[Option]) -> dict[str, bool]:
    """Return the names of options, and whether they take a value."""
    return {name: option.value != "none" for option in options for name in (option.flag, *option.aliases)}


def _model(contract: EngineContract, options: Sequence[str]) -> str:
    """Return the model that the options ask for."""
    flag = contract.launch.model[0].partition("=")[0] if contract.launch.model else ""
    names = _valued(option for option in contract.options if option.flag == flag)
    for token, following in pairwise((*options, "")):
        name, equals, value = token.partition("=")
        if name == flag or name in names:
            return value if equals else following
    return contract.hermetic.model


def _unread(argv: Sequence[str], at: int) -> UsageProblem:
    return UsageProblem(f"unexpected argument {argv[at]!r}" if at < len(argv) else "arguments are missing")
