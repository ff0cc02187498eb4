"""The values of a user's settings and variables that the proof of a resume and `probe --my-settings` run with.

A contract lists them, and nothing else is copied, nor is a text that looks like a secret. They go into the sandbox, and
the result of a proof holds only as long as they stay the same.
"""

import functools
import hashlib
import json
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from turngate.contract.engine_contract import EngineContract
from turngate.contract.home_and_workspace import CopiedFile, SetupFile
from turngate.contract.session_ids import slots
from turngate.files import read_regular
from turngate.sanitize import redact

MAX_BYTES = 16 * 2**20
MAX_TEXT = 1000
_Value = str | int | float | bool


class CopiedValues(Struct, frozen=True):
    """What a proof runs with: `files` of its sandbox and `env`; `digest` distinguishes them (empty: there are none).

    `names` say what was copied, without the values: `FILE: KEY, KEY`, or a variable.
    """

    files: tuple[SetupFile, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""
    names: tuple[str, ...] = ()


def copied_values(contract: EngineContract, env: Mapping[str, str]) -> CopiedValues:
    """Return what a proof runs with in the environment of a user.

    A file that can't be read has no values. A value that is no text, number or boolean isn't copied, and neither is a
    text that looks like a secret.
    """
    names = list[str]()
    places = slots(contract.store.locations if contract.store else {}, env)
    settings: dict[str, dict[str, _Value]] = {}
    for copied in contract.copied_settings.files:
        if found := _found(copied, places):
            settings[copied.into] = settings.get(copied.into, {}) | found
            names.append(f"{copied.file}: {', '.join(found)}")
    variables = {name: env[name] for name in contract.copied_settings.env if name in env and not _is_secret(env[name])}
    if not settings and not variables:
        return CopiedValues()
    digest = hashlib.sha256(json.dumps([settings, variables], sort_keys=True).encode()).hexdigest()
    files = tuple(SetupFile(path, _content(path, values)) for path, values in settings.items())
    return CopiedValues(files, variables, digest, (*names, *variables))


def _found(copied: CopiedFile, places: Mapping[str, str]) -> dict[str, _Value]:
    """Return the values of a settings file by their paths."""
    place, _, below = copied.file.partition("/")
    folder = places.get(place.strip("{}"))
    document = _document(Path(folder, below)) if folder else {}
    values = ((path, _value_at(document, path)) for path in copied.keys)
    return {path: value for path, value in values if value is not None}


def _value_at(document: Any, path: str) -> _Value | None:
    for key in path.split("."):
        document = document.get(key) if isinstance(document, dict) else None
    if isinstance(document, str):
        return None if len(document) > MAX_TEXT or _is_secret(document) else document
    return document if isinstance(document, int | float) else None


def _is_secret(text: str) -> bool:
    return redact(text, registries=False) != text


def _document(path: Path) -> dict[str, Any]:
    with suppress(OSError):
        found = path.stat()
        return _parsed(path, found.st_ino, found.st_size, found.st_mtime_ns)
    return {}


@functools.lru_cache(maxsize=64)
def _parsed(path: Path, _inode: int, _size: int, _modified: int) -> dict[str, Any]:
    """Parse a file once for each of its states, since a server asks for its values at each request."""
    data = read_regular(path, MAX_BYTES)
    with suppress(ValueError, RecursionError):
        document = tomllib.loads(data.decode()) if path.suffix == ".toml" else json.loads(data)
        return document if isinstance(document, dict) else {}
    return {}


def _content(path: str, values: Mapping[str, _Value]) -> str:
    if Path(path).suffix == ".toml":
        return "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items())
    document: dict[str, Any] = {}
    for name, value in values.items():
        *above, last = name.split(".")
        inner = document
        for key in above:
            inner = inner.setdefault(key, {})
        inner[last] = value
    return json.dumps(document)
