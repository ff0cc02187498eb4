"""A prompt out of a file or standard input, since Linux passes no argument of 128 KiB or more."""

from collections.abc import Callable
from typing import Any

import click

MAX_BYTES = 4 * 2**20


def text_file(option: str, what: str) -> Callable[[Any], Any]:
    """Make the option that takes a text from a file; the command gets the text as `from_file`."""
    told = f"Take {what} from a file, byte for byte; - is standard input."
    return click.option(option, "from_file", metavar="FILE", callback=_read, help=told)


def _read(_ctx: click.Context, _option: click.Parameter, path: str | None) -> str | None:
    if path is None:
        return None
    try:
        with click.open_file(path, "rb") as file:
            data: bytes = file.read(MAX_BYTES + 1)
    except (OSError, RuntimeError) as error:  # RuntimeError: standard input is closed
        raise click.BadParameter(f"it can't be read: {error}") from error
    if len(data) > MAX_BYTES:
        raise click.BadParameter(f"it is longer than {MAX_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"it is no UTF-8 from byte {error.start + 1} on") from error
