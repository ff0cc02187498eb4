"""Finds the marks in a prompt by which an engine itself reads a file and sends its content to the model.

A prompt may come from a stranger, such as a caller of a server. In mode interactive, a mark that leads out of the
workspace is refused, unless the caller allows it: nobody asked the user, and the model is not on this machine.
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unicodedata import normalize

from turngate.contract.engine_contract import EngineContract
from turngate.errors import RefusedError
from turngate.files import real_path

_SHOWN = 100
_MOST_SPELLINGS = 32
_MOST_MARKS = 2000
_QUOTES = "\"'`{}<>"
_JOINERS = dict.fromkeys((0x200C, 0x200D))  # which words of some scripts need


def _decoded(found: re.Match[str]) -> str:
    return bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "replace")


# One after the other, since an engine may do some of this: whatever it leaves out, the path must stay inside.
_RESPELLED: tuple[Callable[[str], str], ...] = (
    lambda path: path.strip(f" {_QUOTES}"),
    lambda path: re.sub(r"(?i)\Afile:(?://(?:localhost(?=/))?)?", "", path),
    lambda path: re.sub("(?:%[0-9A-Fa-f]{2})+", _decoded, path),
    lambda path: path.replace("\\", ""),
    lambda path: path.translate(dict.fromkeys(map(ord, _QUOTES))),
    lambda path: re.split("[#?:]", path, maxsplit=1)[0],
    lambda path: path.strip(),
    partial(normalize, "NFC"),
    partial(normalize, "NFD"),
    partial(normalize, "NFKC"),
)


def check_file_marks(contract: EngineContract, prompt: str, workspace: Path | None) -> None:
    """Refuse a prompt with a mark that makes the engine read a file outside `workspace` (None: unknown).

    RefusedError shows the mark, and says what to write instead.
    """
    for mark in contract.file_marks:
        marks = {found["path"]: found[0] for found in re.finditer(mark.pattern, prompt)}
        if len(marks) > _MOST_MARKS:  # to look at each takes long
            what = f"{contract.engine} could read more than {_MOST_MARKS} files by itself, since each `@` may mark one"
            raise RefusedError(what, "give it a shorter prompt, or allow file marks if the prompt comes from you")
        for path, written in marks.items():
            if _leads_out(path, workspace):
                what = f"{contract.engine} would read the file of {written.strip()[:_SHOWN]!r} by itself"
                hint = "name the file without the mark, or allow file marks if the prompt comes from you"
                raise RefusedError(what, f"it is outside the workspace; {hint}")


def _leads_out(path: str, workspace: Path | None) -> bool:
    """Return whether a path may lead out of the workspace, however an engine reads it."""
    spellings = {path}
    for respelled in _RESPELLED:
        spellings |= {*map(respelled, spellings)}
    return len(spellings) > _MOST_SPELLINGS or any(_spelled_out(each, workspace) for each in spellings)


def _spelled_out(path: str, workspace: Path | None) -> bool:
    # what Python and JavaScript trim differs, except for a space
    if path.startswith("~") or "$" in path or not path.translate(_JOINERS).isprintable():
        return True
    if ".." in re.split(r"[/\\]", path):  # after a wildcard, nobody knows what it is above
        return True
    if workspace is None:
        return path.startswith("/")
    return not _is_below(workspace / path, workspace)


def _is_below(path: Path, workspace: Path) -> bool:
    try:
        return real_path(path).is_relative_to(real_path(workspace))
    except (OSError, ValueError):  # such as a link to itself, or a NUL character
        return False
