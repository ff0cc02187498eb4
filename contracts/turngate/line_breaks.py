"""Keeps words of commands whole at the end of a line of HTML."""

import re

# an option, at most as much of it as fits into the narrowest column, or the name of a clause set
_WHOLE = re.compile(r"(?<![\w-])(?:--?[a-zA-Z][a-zA-Z0-9-]{0,20}|20[0-9]{2}-[0-9]{2}(?![\w-]))")


def unbroken(html: str) -> str:
    """Return a piece of HTML without tags in which no line ends after the dashes of an option or in a clause set."""
    return _WHOLE.sub(r'<span class="unbroken">\g<0></span>', html)
