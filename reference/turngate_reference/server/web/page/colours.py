"""Splits the text of a source file into parts of a kind, which the page shows in colours.

The text can be hostile: each alternative of a pattern consumes what it has begun, so the time grows with the length
of the text alone, and the parts are the text. The lexers of Pygments promise no such bound, and a slow pattern would
hold up the server. This is no parser: what several languages share is enough for a reader.
"""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from msgspec import Struct

_STRINGS = r'"""(?s:.*?)(?:"""|\Z)|"(?:\\.|[^"\\\n])*"?|`(?:\\(?s:.)|[^`\\])*`?|(?<!\w\w)\'(?:\\.|[^\'\\\n])*\'?'
_COMMENTS = {
    r"(?<![^\s;])#[^\n]*": """
        bash cfg conf ex exs ini jl mk nim pl pm ps1 py pyi r rb sh toml yaml yml zsh dockerfile
        containerfile makefile
    """,
    r"//[^\n]*|/\*(?s:.*?)(?:\*/|\Z)": """
        c cc cjs cpp cs css cts dart go h hpp java js json json5 jsonc jsx kt kts less m mjs mts php proto
        rs scala scss swift ts tsx vue zig
    """,
    r"--[^\n]*": "elm hs lua sql",
}
_KEYWORDS = """
    abstract and as assert async await break case catch class const continue def default defer del
    delete do done elif else end enum except export extends extern false finally fn for from func
    function global go if impl implements import in instanceof interface is lambda let local loop match
    mod module mut namespace new nil none None nonlocal not null or package pass private protected pub
    public raise return self static struct super switch then this throw trait true True False try type
    typeof union unless until use using var void when where while with yield
"""
_PATTERNS = {
    suffix: re.compile(rf"(?P<comment>{comment})|(?P<string>{_STRINGS})|(?P<number>\b\d[\w.]*)|(?P<word>\b[^\W\d]\w*)")
    for comment, suffixes in _COMMENTS.items()
    for suffix in suffixes.split()
}


class Part(Struct, frozen=True):
    """A part of a text; `kind` is `comment`, `string`, `number`, `keyword`, or empty for all else."""

    kind: str
    text: str


def parts(path: str, text: str) -> list[Part]:
    """Split the text of the file `path` by what its name says about its language; an unknown one is a single part."""
    pattern = _PATTERNS.get(PurePosixPath(path).name.rpartition(".")[2].lower())
    return [*_parts(pattern, text)] if pattern else [Part("", text)]


def _parts(pattern: re.Pattern[str], text: str) -> Iterator[Part]:
    done, keywords = 0, frozenset(_KEYWORDS.split())
    for found in pattern.finditer(text):
        kind = found.lastgroup or ""
        if kind == "word":
            if found[0] not in keywords:
                continue
            kind = "keyword"
        if found.start() > done:
            yield Part("", text[done : found.start()])
        yield Part(kind, found[0])
        done = found.end()
    if done < len(text):
        yield Part("", text[done:])
