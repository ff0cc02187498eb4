"""Lines of text for a terminal or a pipe: their depth, their styles, and how they are printed."""

from enum import StrEnum
from typing import Final, TypeAlias

from rich.console import Console
from rich.text import Text

INDENT: Final = "  "
STYLES: Final = {
    **dict.fromkeys(("broken", "fail", "crashed", "breaking", "red"), "bold red"),
    **dict.fromkeys(("degraded", "known caveat", "unsupported", "unanswered", "interrupted"), "yellow"),
    **dict.fromkeys(("compatible", "pass", "green"), "green"),
    **dict.fromkeys(("not run", "not tested"), "magenta"),
    "stale": "cyan",
}

# a line and its depth
Line: TypeAlias = tuple[int, Text]


class Detail(StrEnum):
    """How much text is printed."""

    QUIET = "quiet"
    NORMAL = "normal"
    VERBOSE = "verbose"


def style_of(word: str) -> str:
    """Return the style of a verdict, result, outcome or impact; none for other words."""
    return STYLES.get(word, "")


def labelled(word: str, rest: str) -> Text:
    """Return a line that begins with a word in its style."""
    return Text.assemble((word, style_of(word)), f" {rest}")


def print_line(console: Console, depth: int, line: Text) -> None:
    """Print a line at a depth; it is wrapped only on a terminal, and never cut."""
    if not line:
        console.print()
        return
    indent = Text(INDENT * depth)
    lines = line.wrap(console, max(1, console.width - len(indent)), overflow="fold") if console.is_terminal else [line]
    for each in lines:
        each.rstrip()  # so that nobody copies blanks
        console.print(indent + each, soft_wrap=True)
