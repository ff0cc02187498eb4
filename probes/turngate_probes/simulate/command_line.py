"""Splits the arguments of an engine into commands, options and words, as its real CLI does."""

import re
from collections.abc import Collection, Sequence

from msgspec import Struct

from turngate.contract.simulation import ArgumentSyntax
from turngate_probes.simulate.options import Accepted, AcceptedOption

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class UsageProblem(Exception):  # noqa: N818 - what a user did, not an error of ours
    """The engine refuses its arguments; `kind` is one of REFUSALS, `slots` are values for its message."""

    def __init__(self, kind: str, words: str, **slots: str) -> None:
        super().__init__(words)
        self.kind, self.slots = kind, slots


class CommandLine(Struct):
    """Arguments that were read: commands, options with their values (None: a switch) in order, and other words."""

    accepted: Accepted
    commands: tuple[str, ...] = ()
    options: list[tuple[str, str | None]] = []
    words: list[str] = []

    @property
    def tokens(self) -> list[str]:
        """The options as separate arguments, under their usual names."""
        return [token for name, value in self.options for token in (name, value) if token is not None]

    def has(self, name: str, value: str | None) -> bool:
        """Whether an option has a value; None: whether it is there at all."""
        last = self.last(name)
        return last is not None and value in (None, last)

    def last(self, name: str | None) -> str | None:
        """Return the last value of an option, empty for a switch; None if it is missing."""
        usual = self.accepted[name].name if name is not None and name in self.accepted else name
        return next((value or "" for option, value in reversed(self.options) if option == usual), None)


class LineReader:
    """Reads arguments; `paths` are the commands that may follow each other, such as (exec, resume)."""

    def __init__(self, accepted: Accepted, syntax: ArgumentSyntax, paths: Collection[tuple[str, ...]]) -> None:
        self.accepted, self.syntax, self.paths = accepted, syntax, paths
        self.line = CommandLine(accepted)

    def read(self, argv: Sequence[str]) -> CommandLine:
        """Read all arguments; UsageProblem for the first that is refused."""
        self.line = CommandLine(self.accepted)
        rest = list(argv)
        while rest:
            token = rest.pop(0)
            if token == "--":
                self.line.words += rest
                break
            if token.startswith("-") and token != "-":
                self._option(token, rest)
            elif not self._command(self.syntax.spellings.get(token, token)):
                self.line.words.append(token)
        return self.line

    def _command(self, word: str) -> bool:
        """Whether a word is the next command; later ones are words of a prompt."""
        longer = (*self.line.commands, word)
        if self.line.words or not any(path[: len(longer)] == longer for path in self.paths):
            return False
        self.line.commands = longer
        return True

    def _option(self, token: str, rest: list[str]) -> None:
        """Take an option, with its value if it has one."""
        typed, equals, value = token.partition("=")
        option, attached = self._known(typed), None
        if option is None and self.syntax.attached and not token.startswith("--"):
            option, attached = self._known(token[:2]), token[2:].removeprefix("=")
        if option is None or self._misplaced(option):
            keys = self._keys(typed)
            raise UsageProblem(
                "unknown", f"unexpected argument '{typed}'", name=typed, key=", ".join(keys), s="s" * (len(keys) > 1)
            )
        self._check_repeated(option)
        if not option.value:
            if equals and "unexpected" in self.syntax.refusals:
                self._refuse("unexpected", option, value)
            self.line.options.append((option.name, None))
            return
        given = [value] if equals else [attached] if attached else self._values(option, rest)
        if not given and not option.optional and self.syntax.no_value == "refused":
            self._refuse("missing", option, key=typed.lstrip("-"))
        for value in given or [""]:
            self._check_value(option, value)
            self.line.options.append((option.name, value))

    def _known(self, typed: str) -> AcceptedOption | None:
        if typed in self.accepted or not self.syntax.camel_case or not typed.startswith("--"):
            return self.accepted.get(typed)
        return self.accepted.get(_HUMP.sub("-", typed).lower())

    def _misplaced(self, option: AcceptedOption) -> bool:
        """Whether the option is unknown at this place."""
        names = {name for name, other in self.accepted.items() if other is option}
        return any(
            names & {*options}
            for placed, after in ((self.syntax.not_before, False), (self.syntax.not_after, True))
            for command, options in placed.items()
            if (command in self.line.commands) is after
        )

    def _values(self, option: AcceptedOption, rest: list[str]) -> list[str]:
        """Take the following arguments that are values of an option."""
        values: list[str] = []
        while rest and (option.several or not values):
            if rest[0].startswith("-") and rest[0] != "-" and (values or option.optional or not self.syntax.dashes):
                break
            values.append(rest.pop(0))
        return values

    def _check_repeated(self, option: AcceptedOption) -> None:
        again = self.line.last(option.name) is not None
        if again and not option.repeatable and self.syntax.repeated == "refused":
            self._refuse("repeated", option)

    def _check_value(self, option: AcceptedOption, value: str) -> None:
        choices, pattern = self.syntax.choices.get(option.name), self.syntax.patterns.get(option.name)
        if choices is not None and value not in choices:
            quoted = ", ".join(f'"{choice}"' for choice in choices)
            self._refuse("choice", option, value, choices=", ".join(choices), quoted=quoted)
        if pattern is not None and not re.fullmatch(pattern, value, re.DOTALL):
            self._refuse("malformed", option, value)

    def _refuse(self, kind: str, option: AcceptedOption, value: str = "", **slots: str) -> None:
        about = {"name": option.name, "option": option.shown, "key": option.name.lstrip("-"), "value": value}
        raise UsageProblem(kind, f"{kind} value {value!r} of {option.shown}", **about | slots)

    def _keys(self, typed: str) -> list[str]:
        """Return an unknown option without dashes; where spellings are equivalent, with its other spelling."""
        key = typed.lstrip("-")
        if not self.syntax.camel_case:
            return [key]
        key = key.removeprefix("no-")
        first, *humps = key.split("-")
        return list(dict.fromkeys((key, first + "".join(hump.title() for hump in humps))))
