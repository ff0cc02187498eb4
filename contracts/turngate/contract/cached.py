"""Contracts for single releases in the user's cache, so that a turn reads no YAML.

A cached contract holds the whole source that it was made from, and the state of the code that made it. Where either
differs, or the file is unreadable, damaged or not the user's own, it is made anew. A cache that can't be written only
costs time.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Raw, Struct, json

from turngate.contract import load
from turngate.contract.structs import EngineContract
from turngate.files import default_cache, is_packaged, name_of, read_own, state_of, write_atomically

_MAX_BYTES = 8 * 2**20
_UNUSABLE = (OSError, ValueError, RuntimeError)  # RuntimeError: there is no home, or the JSON is nested too deeply


class CachedContract(Struct, frozen=True):
    """A contract for one release, with the code and the source that it was made from."""

    code: str
    source: str
    contract: Raw


def cached_contract(engine: str, version: str | None = None) -> EngineContract:
    """Return what `load_contract` does, with the same errors, from the cache if possible."""
    file = load.contract_file(engine)
    source = file.read_text("utf-8")
    with suppress(*_UNUSABLE):
        if cached := _read(_place(file, version), source):
            return cached
    contract = load.Contract(load.parse(source, name_of(file), ours=True))
    resolved = contract.at(version)
    with suppress(*_UNUSABLE):
        _write(_place(file, version), source, contract.claims_at(version))
    return resolved


def _read(place: Path, source: str) -> EngineContract | None:
    cached = json.decode(read_own(place, _MAX_BYTES), type=CachedContract)
    if (cached.code, cached.source) != (_code(), source):
        return None
    return json.decode(cached.contract, type=EngineContract)


def _write(place: Path, source: str, claims: Mapping[str, Any]) -> None:
    if place.is_file() or not place.exists():  # writing to a pipe would block
        cached = CachedContract(_code(), source, Raw(json.encode(claims)))
        write_atomically(place, json.encode(cached).decode(), private=True)


def _place(file: Path, version: str | None) -> Path:
    if version and "/" in version:
        raise ValueError(f"{version} is no version")
    folder = "contracts" if is_packaged(file) else "overlay-contracts"
    return default_cache() / folder / f"{file.stem}@{version or 'newest'}.json"


def _code() -> str:
    return state_of(Path(__file__).parent, ".py")
