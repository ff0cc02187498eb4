"""Makes what others wrote (engines, models, users) harmless and short before it is shown."""

import shlex
from collections.abc import Iterable


def visible(text: str, keep: str = "") -> str:
    """Write every character that has no shape of its own as its escape, save those in `keep`."""
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)


def visible_lines(text: str) -> list[str]:
    """Split a text at its newlines, each line made visible and without trailing blanks."""
    return [visible(line.expandtabs(4)).rstrip() for line in text.strip("\n").split("\n")]


def bounded(text: str, limit: int) -> str:
    """Keep the start and the end of a text, `limit` characters in all, and say how many are left out."""
    if len(text) <= limit:
        return text
    tail = limit // 4
    return f"{text[: limit - tail]}[… {len(text) - limit} characters left out …]{text[len(text) - tail :]}"


def command_line(argv: Iterable[str], longest_word: int) -> str:
    """Write an argv as a shell would read it, on one line."""
    return visible(shlex.join(bounded(word, longest_word) for word in argv))
