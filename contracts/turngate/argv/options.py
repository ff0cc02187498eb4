"""Cuts the options of a caller into those that the contract knows."""

from collections.abc import Sequence

from msgspec import Struct

from turngate.argv.allowed import allowed_hint
from turngate.contract.launch import Option
from turngate.contract.structs import EngineContract
from turngate.errors import RefusedError
from turngate.model import Mode


class PlacedOption(Struct, frozen=True):
    """An option of the caller with its tokens, one or two."""

    option: Option
    tokens: tuple[str, ...]

    @property
    def value(self) -> str:
        """The value; empty if there is none."""
        return self.tokens[1] if len(self.tokens) > 1 else self.tokens[0].partition("=")[2]


def read_options(contract: EngineContract, tokens: Sequence[str], mode: Mode = Mode.AUTO) -> tuple[PlacedOption, ...]:
    """Cut the caller's tokens into known options; RefusedError names the first unknown or without value.

    A name counts only as the contract spells it, in a token of its own or before `=`. The error lists what the mode
    allows.
    """
    by_name = {name: option for option in contract.options for name in (option.flag, *option.aliases)}
    read: list[PlacedOption] = []
    queue = list(tokens)
    while queue:
        token = queue.pop(0)
        name, equals, _ = token.partition("=")
        option = by_name.get(name)
        if option is None or not can_be_passed(token):
            unknown = f"{token[:80]!r} is not a known option of {contract.engine}"
            raise RefusedError(unknown, allowed_hint(contract, mode), token)
        if option.value != "many" and any(option is placed.option for placed in read):
            raise RefusedError(f"{option.flag} occurs twice", "pass it once", token)
        if option.value == "none" or equals:
            if option.value == "none" and equals:
                raise RefusedError(f"{name} takes no value", f"pass {name} alone", token)
            read.append(PlacedOption(option, (token,)))
            continue
        if not queue or queue[0].startswith("-") or not can_be_passed(queue[0]):
            raise RefusedError(f"{name} needs a value", f"pass it as the next token, or as {name}=VALUE", token)
        read.append(PlacedOption(option, (token, queue.pop(0))))
    return tuple(read)


def can_be_passed(token: str) -> bool:
    """Return whether an argument can hold the text: no NUL, and no lone surrogate except those of file names."""
    try:
        return b"\0" not in token.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
