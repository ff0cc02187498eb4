"""Session ids: which values are safe to pass on, invented ids, and the paths of session files."""

import re
import unicodedata
from collections.abc import Mapping
from contextlib import suppress

MAX_BYTES = 512
_SLOT = re.compile(r"\{(?P<name>\w+)(?::(?P<length>[0-9]+))?\}")


def unsafe(value: object) -> str:
    """Return why a value can't be passed on as a session id; empty if it can. An id is opaque otherwise.

    >>> unsafe("0198C6A1/7"), unsafe("--last")
    ('', "'--last' looks like an option")
    """
    if not isinstance(value, str):
        return f"{value!r} is no text"
    if not value.strip():
        return f"{value[:80]!r} is blank"
    if value.startswith("-"):
        return f"{value[:80]!r} looks like an option"
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in value):
        return f"{value[:80]!r} has control characters or isn't valid text"
    return f"{value[:80]!r} and more is longer than {MAX_BYTES} bytes" if len(value.encode()) > MAX_BYTES else ""


def slots(locations: Mapping[str, str], env: Mapping[str, str | None]) -> dict[str, str]:
    """Return HOME and the location variables with their values in `env` or else their defaults; omit others."""
    home = env.get("HOME")
    values = {"HOME": home} if home else {}
    for name, default in locations.items():
        with suppress(KeyError):
            values[name] = env.get(name) or filled(default, values)
    return values


def filled(text: str, values: Mapping[str, str]) -> str:
    """Fill every slot, `{name:8}` with the first eight characters; KeyError if a value is missing."""
    return _SLOT.sub(lambda slot: values[slot["name"]][: int(slot["length"]) if slot["length"] else None], text)


def names_in(text: str) -> set[str]:
    """Return the names of the slots in a text."""
    return {slot["name"] for slot in _SLOT.finditer(text)}


def folder_word(cwd: str) -> str:
    """Return the folder name that engines derive from a directory: all but letters and digits become dashes."""
    return re.sub(r"[^A-Za-z0-9]", "-", cwd)


def numbered_like(dead: str, number: int) -> str | None:
    """Write `number` into the last run of at least six zeros of a nonexistent id; None if it has no such run.

    >>> numbered_like("ses_000000000000AAAAAAAAAAAAAA", 12)
    'ses_000000000012AAAAAAAAAAAAAA'
    """
    runs = list(re.finditer("0{6,}", dead))
    if not runs:
        return None
    start, end = runs[-1].span()
    return f"{dead[:start]}{number:0{end - start}d}{dead[end:]}"
