"""Prepares text from models, engines and callers for display; the templates escape it."""

import json
import os
import re
from pathlib import Path
from stat import S_ISREG
from typing import Any

from jinja2.filters import do_filesizeformat
from markupsafe import Markup, escape
from msgspec import Struct

from turngate.line_breaks import unbroken
from turngate.sanitize import bounded, visible

# newlines, tabs, and the joiners of emoji and letters, which are invisible but shape their neighbours
_KEPT = "\n\t\u200c\u200d"
MAX_OUTPUT = 16 * 2**10
MAX_ITEMS = 100
_WORD = re.compile(r"[a-z']+(?=[\s,]|$)")


class OutputTail(Struct, frozen=True):
    """The end of what an engine printed on one stream; `size` is in bytes, of all that was kept."""

    name: str
    text: str
    size: int

    @property
    def left_out(self) -> int:
        """How many bytes before it are not displayed."""
        return max(0, self.size - MAX_OUTPUT)


def displayed(text: Any, limit: int = 4000) -> str:
    """Return a text with invisible characters escaped, `limit` characters long at most."""
    return bounded(visible(bounded(str(text), limit), _KEPT), limit)


def whole(text: str) -> Markup:
    """Return the HTML of a text in which no line ends after the dashes of an option."""
    return Markup(unbroken(str(escape(text))))  # noqa: S704 - escaped just before


def size(count: int) -> str:
    """Return a number of bytes as people write it, such as `4 bytes` or `1.2 MiB`."""
    return do_filesizeformat(count, binary=True).replace("Byte", "byte")


def sentence(text: str) -> str:
    """Return a message of the API as a sentence; what begins with a name, such as that of a member, keeps it."""
    begun = text[:1].upper() + text[1:] if _WORD.match(text) else text
    return begun if begun.endswith((".", "?", "!", "…")) or not begun else f"{begun}."


def as_json(value: Any, limit: int = 16_000) -> str:
    """Return data as indented JSON, with invisible characters escaped."""
    return displayed(json.dumps(value, indent=2, ensure_ascii=False), limit)


def is_simple_list(value: Any) -> bool:
    """Whether data is a short list of texts and numbers."""
    simple = (str, int, float)
    return isinstance(value, list) and len(value) <= MAX_ITEMS and all(isinstance(item, simple) for item in value)


def moment(time: str) -> str:
    """Format a time from the store for people, to the minute."""
    return f"{time[:16].replace('T', ' ')} UTC"


def outputs(folder: Path) -> list[OutputTail]:
    """Return the end of both streams of an attempt, without empty streams."""
    read = (_output(folder / name) for name in ("stdout", "stderr"))
    return [output for output in read if output is not None and output.size]


def _output(path: Path) -> OutputTail | None:
    """Read the end of a stream; None if the file doesn't exist or isn't turngate's."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
            state = os.fstat(file.fileno())
            if not S_ISREG(state.st_mode):
                return None
            file.seek(max(0, state.st_size - MAX_OUTPUT))
            text = file.read(MAX_OUTPUT).decode("utf-8", "replace")
    except OSError:
        return None
    return OutputTail(path.name, displayed(text, MAX_OUTPUT), state.st_size)
