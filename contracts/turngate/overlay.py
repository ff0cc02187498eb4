"""Where contract files lie: in the package, and in a folder of one's own that goes before it."""

from functools import cache
from pathlib import Path

_PACKAGED = Path(__file__).parent
_in_use: list[Path] = []


def use_overlay(folder: Path | None) -> None:
    """Use `engines` and `simulations` of a folder before those of the package, from now on; None: no longer."""
    _in_use[:] = [folder] if folder else []
    contract_files.cache_clear()


def overlay() -> Path | None:
    """Give the folder that goes before the package."""
    return _in_use[0] if _in_use else None


@cache
def contract_files() -> dict[str, Path]:
    """Return the file of each engine's contract."""
    return _files("engines")


def simulation_files() -> dict[str, Path]:
    """Return the file of each engine that can be simulated."""
    return _files("simulations")


def _files(kind: str) -> dict[str, Path]:
    found = {file.stem: file for folder in (_PACKAGED, *_in_use) for file in folder.glob(f"{kind}/*.yaml")}
    return dict(sorted(found.items()))


def name_of(file: Path) -> str:
    """Name a contract file for messages: a packaged one as it stands in the package."""
    return f"{file.parent.name}/{file.name}" if file.parent.parent == _PACKAGED else str(file)
