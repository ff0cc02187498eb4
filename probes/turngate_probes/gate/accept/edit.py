"""Changes a contract's text where the loader's marks point, so that comments and formatting stay. Pure.

A claim is named by its path, such as `("options", 3)`. Each function takes the text and gives the new one; ValueError
says that the text is of a form that is not edited.
"""

import json
import re
from collections.abc import Sequence

from turngate.contract import load
from turngate.contract.load import Document, Path_

_ANCHOR = re.compile(r"&\S+[ \n]+")
_SCALAR = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\']|\'\')*\'|[^,\]}\n#]*[^,\]}\s#]')
_PLAIN = re.compile(r"(?:--)?[A-Za-z0-9_.][\w./-]*", re.ASCII)


def parsed(text: str) -> Document:
    """Read the text of a contract."""
    return load.parse(text, "the edited contract", ours=True)


def close(text: str, claim: Path_, version: str, observed: str) -> str:
    """Have a claim end before a version, and say what shows it."""
    return _evidence(_set(text, claim, "until", version), claim, observed)


def split(text: str, claim: Path_, version: str, observed: str) -> str:
    """Cut a claim in two at a version, the second one like the first; its path is the next one."""
    section, i = claim
    start, end = _lines_of(text, claim)
    # an anchor may stand once, and who refers to it means the first
    copy = re.sub(r" ?&[\w-]+(?=\s)", "", text[start:end])
    second = (section, int(i) + 1)
    text = close(text[:end] + copy + text[end:], claim, version, observed)
    return _evidence(_set(text, second, "since", version), second, observed)


def remove_item(text: str, item: Path_) -> str:
    """Take one entry of a list of plain words out."""
    document = parsed(text)
    start, end = _scalar(text, document, item)
    if rest := re.match(r",\s*", text[end:]):
        return text[:start] + text[end + rest.end() :]
    before = re.search(r",\s*$", text[:start])
    if before:
        return text[: before.start()] + text[end:]
    line = text.rfind("\n", 0, start) + 1
    if not re.fullmatch(r"\s*-\s+", text[line:start]):
        raise ValueError(f"{load.dotted(item)} is the only entry of its list")
    return text[:line] + text[text.index("\n", end) + 1 :]


def add_item(text: str, listed: Path_, word: str) -> str:
    """Add a word to the end of a list of words."""
    document = parsed(text)
    last = max(path[-1] for path in document.marks if path[:-1] == listed and isinstance(path[-1], int))
    start, end = _scalar(text, document, (*listed, last))
    line = text.rfind("\n", 0, start) + 1
    if re.fullmatch(r"\s*-\s+", text[line:start]):
        stop = text.index("\n", end) + 1
        return f"{text[:stop]}{text[line:start]}{_written(word)}\n{text[stop:]}"
    return f"{text[:end]}, {_written(word)}{text[end:]}"


def add_claim(text: str, section: str, fields: Sequence[tuple[str, object]]) -> str:
    """Add a claim, one key a line, to the end of a section that has some, else to the end of the file."""
    document = parsed(text)
    body = [f"{key}: {_written(value)}" for key, value in fields]
    count = len(document.data.get(section) or ())
    if not count:
        if section in document.data:
            raise ValueError(f"{section} is there, and empty")
        return f"{text.rstrip()}\n\n{section}:\n  - " + "\n    ".join(body) + "\n"
    start, end = _lines_of(text, (section, count - 1))
    indent = re.match(r"\s*", text[start:])
    dash = indent[0] if indent else ""
    return f"{text[:end]}{dash}- " + f"\n{dash}  ".join(body) + f"\n{text[end:]}"


def _set(text: str, claim: Path_, key: str, value: str) -> str:
    """Return a claim's key a value, in place of the one that it has."""
    document = parsed(text)
    if (*claim, key) in document.marks:
        start, end = _scalar(text, document, (*claim, key))
        return text[:start] + _written(value) + text[end:]
    at = _content(text, document, claim)
    if text[at] == "{":
        found = document.marks.get((*claim, "evidence"))
        place = text.rfind("evidence", at, _offset(text, found)) if found else at + 1
        return f"{text[:place]}{key}: {_written(value)}, {text[place:]}"
    indent = " " * (at - text.rfind("\n", 0, at) - 1)
    if key == "until" and (*claim, "since") in document.marks:
        at = text.index("\n", _offset(text, document.marks[(*claim, "since")])) + 1
        return f"{text[:at]}{indent}{key}: {_written(value)}\n{text[at:]}"
    return f"{text[:at]}{key}: {_written(value)}\n{indent}{text[at:]}"


def _evidence(text: str, claim: Path_, observed: str) -> str:
    """Put an observation before a claim's other evidence; one that has none stays without."""
    document = parsed(text)
    mark, shown = document.marks.get((*claim, "evidence")), _written({"observed": observed})
    if mark is None:
        return text
    at = _offset(text, mark)
    if text[at] == "[":
        return f"{text[: at + 1]}{shown}, {text[at + 1 :]}"
    if text[at] == "-":
        return f"{text[:at]}- {shown}\n{' ' * (mark[1] - 1)}{text[at:]}"
    raise ValueError(f"the evidence of {load.dotted(claim)} is shared with another claim")


def _lines_of(text: str, claim: Path_) -> tuple[int, int]:
    """Return where the lines of a list's entry begin and end, without the blank lines and comments after them."""
    at = _offset(text, parsed(text).marks[claim])
    start = text.rfind("\n", 0, at) + 1
    if not re.fullmatch(r"\s*-\s+", text[start:at]):
        raise ValueError(f"{load.dotted(claim)} does not begin a line")
    indent = len(text[start:at]) - len(text[start:at].lstrip())
    end = text.index("\n", at) + 1
    for line in text[end:].splitlines(keepends=True):
        inner = len(line) - len(line.lstrip()) > indent
        if not inner and line.strip():
            break
        end += len(line)
    return start, start + len(re.sub(r"(\n[ \t]*(#[^\n]*)?)+\Z", "\n", text[start:end]))


def _content(text: str, document: Document, path: Path_) -> int:
    """Find where a value begins, past its anchor."""
    at = _offset(text, document.marks[path])
    anchor = _ANCHOR.match(text, at)
    return anchor.end() if anchor else at


def _scalar(text: str, document: Document, path: Path_) -> tuple[int, int]:
    start = _content(text, document, path)
    found = _SCALAR.match(text, start)
    if not found:
        raise ValueError(f"{load.dotted(path)} is no plain word")
    return start, found.end()


def _offset(text: str, mark: tuple[int, int]) -> int:
    line, column = mark
    at = 0
    for _ in range(line - 1):
        at = text.index("\n", at) + 1
    return at + column - 1


def _written(value: object) -> str:
    """Write a value in YAML's flow style; only plain words go without quotes."""
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) and load.parse(value, "").data == value else _quoted(value)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_written(each)}' for key, each in value.items())}}}"
    return f"[{', '.join(map(_written, value))}]" if isinstance(value, (list, tuple)) else json.dumps(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
