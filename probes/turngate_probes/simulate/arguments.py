"""Reads the arguments of an engine by its contract: the reverse of `turngate.argv.build`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile

from turngate.argv.auto_flags import auto_flags_in
from turngate.contract.launch import PromptChannel
from turngate.contract.structs import EngineContract


@dataclass(frozen=True, slots=True)
class Asked:
    """What the arguments ask for; `prompt` None means that it stands on standard input."""

    handle: str | None
    prompt: str | None
    channel: PromptChannel
    model: str
    auto: bool


class UsageProblem(Exception):  # noqa: N818 - what a user did, not an error of ours
    """The arguments are not among those that the contract knows; the text says where they leave it."""


@dataclass(slots=True)
class _Reader:
    """One template and one prompt channel, matched from left to right; `at` is how far it came.

    `valued` are the options that it takes, and whether they have a value.
    """

    contract: EngineContract
    argv: Sequence[str]
    channel: PromptChannel
    valued: Mapping[str, bool]
    at: int = 0
    options: list[str] = field(default_factory=list)
    handle: str | None = None
    prompt: str | None = None

    def read(self, template: Sequence[str]) -> bool:
        """Match the whole template against all arguments."""
        for token in template:
            if token == "{options}":
                self._options()
            elif token == "{prompt}":
                if not all(self._take(part, "text") for part in self.channel.tokens):
                    return False
            elif not self._take(token, "handle"):
                return False
        return self.at == len(self.argv)

    def asked(self) -> Asked:
        """Return what was read."""
        auto = bool(auto_flags_in(self.options, self.contract))
        return Asked(self.handle, self.prompt, self.channel, self.model(), auto)

    def _take(self, token: str, slot: str) -> bool:
        """Match one token, in which one slot may stand."""
        before, has_slot, after = token.partition(f"{{{slot}}}")
        if self.at >= len(self.argv):
            return False
        word = self.argv[self.at]
        if not has_slot and word != token:
            return False
        if has_slot and not (word.startswith(before) and word.endswith(after) and len(word) >= len(before + after)):
            return False
        if has_slot:
            setattr(self, "prompt" if slot == "text" else "handle", word[len(before) : len(word) - len(after)])
        self.at += 1
        return True

    def _options(self) -> None:
        """Take every option, with its value."""
        while self.at < len(self.argv):
            name, equals, _ = self.argv[self.at].partition("=")
            if name not in self.valued:
                return
            width = 2 if self.valued[name] and not equals else 1
            self.options += self.argv[self.at : self.at + width]
            self.at += width

    def model(self) -> str:
        """Return the model that the options ask for."""
        flag = self.contract.launch.model[0].partition("=")[0] if self.contract.launch.model else ""
        names = {flag, *(a for o in self.contract.options if o.flag == flag for a in o.aliases)}
        for i, token in enumerate(self.options):
            name, equals, value = token.partition("=")
            if name in names:
                return value if equals else self.options[i + 1]
        return self.contract.hermetic.model


def read(contract: EngineContract, argv: Sequence[str]) -> Asked:
    """Read the arguments after the executable; UsageProblem if no template of the contract fits them."""
    furthest, valued = 0, dict(_option_names(contract))
    for template in (contract.launch.resume, contract.launch.start):
        for channel in contract.launch.prompt:
            reader = _Reader(contract, argv, channel, valued)
            if reader.read(template):
                return reader.asked()
            furthest = max(furthest, reader.at)
    raise _unread(argv, furthest)


def is_sticky(contract: EngineContract, argv: Sequence[str]) -> bool:
    """Whether the arguments are for a process that is kept over several turns."""
    words = tuple(takewhile(lambda word: word != "{options}", contract.sticky.argv))
    return bool(words) and tuple(argv[: len(words)]) == words


def read_sticky(contract: EngineContract, argv: Sequence[str]) -> tuple[list[str], str]:
    """Return the options of such a process and its model; UsageProblem if it does not take its arguments."""
    valued = dict(_sticky_option_names(contract))
    reader = _Reader(contract, argv, contract.launch.prompt[0], valued)
    if not reader.read(contract.sticky.argv):
        raise _unread(argv, reader.at)
    return reader.options, reader.model()


def refusal(channel: PromptChannel, prompt: str) -> str | None:
    """Return why a prompt can't travel by its channel, if the contract says so."""
    return next((refusal.why for refusal in channel.refuses if re.search(refusal.pattern, prompt)), None)


def _option_names(contract: EngineContract) -> Iterator[tuple[str, bool]]:
    """Name every option that may be passed, and say whether it takes a value; callers' options decide last."""
    for flag in contract.auto_flags:
        for name in (flag.flag, *flag.aliases):
            yield name, flag.safe_values is not None or bool(flag.keys)
    for option in contract.options:
        for name in (option.flag, *option.aliases):
            yield name, option.value != "none"


def _sticky_option_names(contract: EngineContract) -> Iterator[tuple[str, bool]]:
    """Name the options that a sticky process takes: of the model, of callers, and of the modes."""
    kept = contract.sticky
    model = contract.launch.model[:1] if kept.model == "argument" else ()
    taken = {*kept.options, *(token.partition("=")[0] for token in model)}
    for option in contract.options:
        if option.flag in taken:
            for name in (option.flag, *option.aliases):
                yield name, option.value != "none"
    for stance in filter(None, (kept.interactive, kept.auto)):
        for token, following in pairwise((*stance.options, "-")):
            if token.startswith("-"):
                yield token, not following.startswith("-")


def _unread(argv: Sequence[str], at: int) -> UsageProblem:
    return UsageProblem(f"unexpected argument {argv[at]!r}" if at < len(argv) else "arguments are missing")
