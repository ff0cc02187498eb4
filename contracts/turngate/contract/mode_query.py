"""How a contract checks, before the start, that an engine asks."""

from typing import Annotated

from msgspec import Struct

from turngate.contract.values import NOT_EMPTY, Strings, Text


class ModeQuery(Struct, frozen=True):
    """How to check before the start that the active configuration asks.

    argv: Arguments of a command that prints a JSON document.
    key: Wherever this key occurs in the document, everything below it must be one of `values`.
    """

    argv: Annotated[Strings, NOT_EMPTY]
    key: Text
    values: Annotated[Strings, NOT_EMPTY]
