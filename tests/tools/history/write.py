"""Writes the file of a history, as `turngate.history.read` reads it."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import structs

from turngate.decoding import convert
from turngate.files import write_atomically
from turngate.history import Head, History, KnownRelease, Line

_T = TypeVar("_T")


def write(history: History, path: Path) -> None:
    """Write a file, completely or not at all; OSError if that fails."""
    head = Head(engine=history.engine, machine=history.machine, published=history.published)
    lines, before = [msgspec.json.encode(head)], KnownRelease(version="")
    for release in history.releases:
        sections = before.facts.keys() | release.facts.keys()
        facts = {
            section: _patch(before.facts.get(section, {}), release.facts[section]) if section in release.facts else None
            for section in sorted(sections)
            if before.facts.get(section) != release.facts.get(section)
        }
        patch = {"clauses": _patch(before.clauses, release.clauses), "facts": facts}
        lines.append(msgspec.json.encode(convert(structs.asdict(release) | patch, Line)))
        before = release
    write_atomically(path, b"\n".join([*lines, b""]).decode())


def _patch(was: Mapping[str, _T], now: Mapping[str, _T]) -> Mapping[str, _T | None]:
    """Return what turns one mapping into the other; None removes a key."""
    return {name: now.get(name) for name in sorted(was.keys() | now.keys()) if was.get(name) != now.get(name)}
