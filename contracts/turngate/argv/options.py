"""Splits a caller's tokens into options that the contract knows."""

from collections.abc import Sequence

from msgspec import Struct

from turngate.argv.allowed import allowed_hint
from turngate.contract.launch import Option
from turngate.contract.structs import EngineContract
from turngate.errors import RefusedError
from turngate.model import Mode


class PlacedOption(Struct, frozen=True):
    """A caller's option with its one or two tokens."""

    option: Option
    tokens: tuple[str, ...]

    @property
    def value(self) -> str:
        """The value; empty if it has none."""
        return self.tokens[1] if len(self.tokens) > 1 else self.tokens[0].partition("=")[2]


def read_options(contract: EngineContract, tokens: Sequence[str], mode: Mode = Mode.AUTO) -> tuple[PlacedOption, ...]:
    """Split the caller's tokens into known options; RefusedError names the first that is unknown or lacks its value.

    Names must be spelled as in the contract, as a separate token or before `=`. The error lists the options that the
    mode allows.
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
                raise RefusedError(f"{name} takes no value", f"pass {name} without a value", token)
            read.append(PlacedOption(option, (token,)))
            continue
        if not queue or queue[0].startswith("-") or not can_be_passed(queue[0]):
            raise RefusedError(f"{name} needs a value", f"pass it as the next token, or as {name}=VALUE", token)
        read.append(PlacedOption(option, (token, queue.pop(0))))
    return tuple(read)


def can_be_passed(token: str) -> bool:
    """Return whether an argument can contain the text: no NUL, and no lone surrogates except those of file names."""
    try:
        return b"\0" not in token.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
