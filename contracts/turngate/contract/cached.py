"""Contracts for single releases in the user's cache, so that a turn reads no YAML.

A cached contract holds the whole source that it was made from, and the state of the code that made it. Where either
differs, where it is the contract of another release, or where the file is unreadable, damaged or not the user's own,
it is made anew. A cache that can't be written only costs time.
"""

from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec import Struct, json

from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.decoding import decode
from turngate.files import default_cache, is_packaged, keep_newest, name_of, read_own, state_of, write_atomically

KEPT = 64  # files in a folder
_MAX_BYTES = 2**20
_UNUSABLE = (OSError, ValueError, RuntimeError)  # RuntimeError: there is no home, or the JSON is nested too deeply


class CachedContract(Struct, frozen=True):
    """A contract for one release, with the code and the source that it was made from."""

    code: str
    source: str
    contract: EngineContract


def cached_contract(engine: str, version: str | None = None) -> EngineContract:
    """Return what `load_contract` does, with the same errors, from the cache if possible."""
    file = load.contract_file(engine)
    source = load.text_of(file, name_of(file))
    with suppress(*_UNUSABLE):
        cached = decode(read_own(_place(file, version), _MAX_BYTES), CachedContract)
        asked = (_code(), source, engine, version)
        if (cached.code, cached.source, cached.contract.engine, cached.contract.version) == asked:
            return cached.contract
    contract = load.Contract(load.parse(source, name_of(file), ours=True))
    resolved = contract.at(version)
    with suppress(*_UNUSABLE):
        reported = {"code": _code(), "source": source, "contract": contract.claims_at(version)}
        _write(_place(file, version), json.encode(reported))
    return resolved


def _write(place: Path, data: bytes) -> None:
    if len(data) <= _MAX_BYTES and (place.is_file() or not place.exists()):  # writing to a pipe would block
        write_atomically(place, data.decode(), private=True)
        keep_newest(place.parent, KEPT)


def _place(file: Path, version: str | None) -> Path:
    if version and "/" in version:
        raise ValueError(f"{version} is no version")
    folder = "contracts" if is_packaged(file) else "overlay-contracts"
    return default_cache() / folder / f"{file.stem}@{version or 'newest'}.json"


@cache
def _code() -> str:
    return state_of(Path(__file__).parent, ".py")
