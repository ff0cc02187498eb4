"""The pinned releases: a `package.json` with its lock for npm, a `requirements.txt` with checksums for PyPI."""

import re
from pathlib import Path

from msgspec import Struct

from turngate import ContractError
from turngate.decoding import decode
from turngate.files import overlay, read_regular

PINS = Path(__file__).parent / "pins"
MANIFEST, LOCK, REQUIREMENTS = "package.json", "package-lock.json", "requirements.txt"
_HINT = "name one exact version, as in docs/writing-a-contract.md"
_MOST_BYTES = 4 * 2**20
_VERSION = "[0-9A-Za-z][0-9A-Za-z.!+-]*"  # it names a folder of the cache


class _Manifest(Struct):
    """A `package.json` with one dependency, the engine."""

    dependencies: dict[str, str]


def pin_of(engine: str) -> Path:
    """Return the folder of an engine's pin: in the overlay if it has one, else the bundled one."""
    own = overlay()
    folder = own / "pins" / engine if own else None
    return folder if folder and folder.is_dir() else PINS / engine


def pinned_version(engine: str) -> str | None:
    """Return the version that `engine` is pinned at, or None if it has no pin; ContractError if the pin is wrong."""
    folder = pin_of(engine)
    if (manifest := folder / MANIFEST).exists():
        versions = [*_manifest(manifest).dependencies.values()]
        if len(versions) != 1 or not re.fullmatch(_VERSION, versions[0]):
            raise ContractError("doesn't pin one version", str(manifest), 1, 1, "$.dependencies", _HINT)
        return versions[0]
    return pinned_wheels(engine)[0]


def pinned_wheels(engine: str) -> tuple[str | None, frozenset[str]]:
    """Return the version of a pin for PyPI and the sha256 of its wheels; None if there is no such pin.

    The first requirement is the engine's own package. ContractError if the file can't be read.
    """
    file = pin_of(engine) / REQUIREMENTS
    text = _read(file).decode("utf-8", "replace") if file.exists() else ""
    lines = re.sub(r"\\\n", "", text).splitlines()
    for line in lines:
        if pin := re.match(rf"[A-Za-z0-9._-]+==({_VERSION})(\s|$)", line):
            return pin[1], frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", line))
    return None, frozenset()


def _manifest(file: Path) -> _Manifest:
    try:
        return decode(_read(file), _Manifest)
    except (ValueError, RecursionError) as wrong:
        raise ContractError(str(wrong), str(file), 1, 1, hint=_HINT) from wrong


def _read(file: Path) -> bytes:
    try:
        data = read_regular(file, _MOST_BYTES + 1)
    except OSError as error:
        raise ContractError(f"can't be read: {error.strerror}", str(file), hint=_HINT) from error
    if len(data) > _MOST_BYTES:
        raise ContractError(f"longer than {_MOST_BYTES // 2**20} MiB", str(file), 1, 1, hint=_HINT)
    return data
