"""Makes untrusted text safe and short, and removes secrets, registries and local paths."""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from unicodedata import east_asian_width

_JOINERS = "\u200c\u200d"  # of emoji and letters: invisible, but they shape their neighbours
_LEAST_ROOM = 20
_LAST = 2**14  # of a program's output, the part in which the last lines are looked for
# sequences that move the cursor, colour or name the window: CSI, OSC and other strings, two-character escapes
_SEQUENCE = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]"
_SECRETS = (
    r"(?P<kept>\bbearer\s{1,9}"
    r"|(?:api[_-]?key|token|secret|password)[\"']?(?:\s{0,9}[=:]\s{0,9}|\s{1,9})[\"']?"
    r"|://[^\s/:@]{1,80}:(?=[^\s/@]{1,80}@))"
    r"(?P<secret>[^\s/@]{1,80}(?=@)|(?=[^\s\"'@]{0,80}\d)[A-Za-z0-9._~+/=-]{8,})"
    r"|\b(?P<key>sk-[A-Za-z0-9_-]{16,}|AIza[A-Za-z0-9_-]{30,}|gh[pousr]_[A-Za-z0-9]{20,})"
)
_REGISTRY = (
    r"(?<![a-z0-9.-])(?:https?://)?(?:[a-z0-9-]+\.)*(?:registry\.[a-z0-9-]+|npmjs|pypi|pythonhosted)"
    r"(?:\.[a-z0-9-]+)*\.[a-z]{2,}(?::\d+)?"
)


def visible(text: str, keep: str = "") -> str:
    """Return the text with every invisible character escaped, except those in `keep`."""
    if text.isprintable():
        return text
    hidden = (c for c in set(text) if not (c.isprintable() or c in keep))
    return text.translate({ord(c): c.encode("unicode_escape").decode() for c in hidden})


def visible_lines(text: str) -> list[str]:
    """Split a text into lines, with invisible characters escaped and trailing blanks removed."""
    return [visible(line.expandtabs(4)).rstrip() for line in text.strip("\n").split("\n")]


def quoted_lines(text: str, mark: str = "| ", width: int = 0) -> list[str]:
    """Split a text of others into lines that can't pass for ours.

    The first line begins with `mark`. The others are indented as far and begin with `|`, also those at which a terminal
    of `width` columns would break the text by itself.
    """
    further = (" " * (len(mark) - len(mark.lstrip())) + "|").ljust(len(mark))
    lines = [visible(line.expandtabs(4), _JOINERS).rstrip() for line in text.strip("\n").split("\n")]
    pieces = [piece for line in lines for piece in (_pieces(line, width - len(mark)) if width else (line,))]
    return [(mark + pieces[0]).rstrip(), *((further + piece).rstrip() for piece in pieces[1:])]


def _pieces(line: str, room: int) -> Iterator[str]:
    """Break a line into pieces of at most `room` columns, after a blank if there is one in the second half."""
    room, start, used = max(room, _LEAST_ROOM), 0, 0
    for at, character in enumerate(line):
        used += _columns(character)
        if used > room:
            end = line.rfind(" ", start + room // 2, at) + 1 or at
            yield line[start:end]
            start, used = end, sum(map(_columns, line[end : at + 1]))
    yield line[start:]


def _columns(character: str) -> int:
    return 2 if east_asian_width(character) in "WF" else 1


def last_lines(text: str, count: int, longest: int = 300) -> list[str]:
    """Return the last lines of what a program printed, with at most `longest` characters of each.

    Blank lines, control sequences of terminals and all that looks like a secret are removed.
    """
    plain = (line.strip() for line in _compiled(_SEQUENCE).sub("", text[-_LAST:]).splitlines())
    return [visible(bounded(redact(line, registries=False), longest)) for line in [*filter(None, plain)][-count:]]


def bounded(text: str, limit: int) -> str:
    """Return the start and the end of a text, `limit` characters in all, with the number of omitted characters."""
    if len(text) <= limit:
        return text
    tail = limit // 4
    return f"{text[: limit - tail]}[… {len(text) - limit} characters left out …]{text[len(text) - tail :]}"


def command_line(argv: Iterable[str], longest_word: int) -> str:
    """Return an argv on one line, quoted for a shell."""
    from shlex import join  # noqa: PLC0415 - seldom needed on the way to a turn

    return visible(join(bounded(word, longest_word) for word in argv))


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern on first use, since most commands redact nothing."""
    return re.compile(pattern, re.IGNORECASE)


def names_registry(host: str) -> bool:
    """Whether the name of a host looks like one of a package registry."""
    return _compiled(_REGISTRY).fullmatch(host) is not None


def redact(text: str, known: Mapping[str, str] | None = None, *, registries: bool = True) -> str:
    """Replace `known` strings, longest first, with placeholders, then all that looks like a secret or a registry.

    Without `registries`, their names stay.
    """
    for secret, placeholder in sorted((known or {}).items(), key=lambda pair: len(pair[0]), reverse=True):
        text = text.replace(secret, placeholder) if secret else text
    text = _compiled(_SECRETS).sub(_hide, text)
    return _compiled(_REGISTRY).sub("<package-registry>", text) if registries else text


def _hide(match: re.Match[str]) -> str:
    return (match["kept"] or "") + "<secret>"
