"""The available recordings, their folders, and the releases that are known to violate their contract."""

import os
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from semver import Version

from turngate import ContractError
from turngate.contract import load

CHECKOUT = Path(__file__).resolve().parents[3] / "fixtures"
PACKAGED = (
    Path(__file__).resolve().parents[1] / "recordings"
)  # in a wheel: recordings of engines that can't be installed
BROKEN = "broken.yaml"


def folders() -> list[Path]:
    """Return the folders of recordings, nearest first: only `TURNGATE_FIXTURES`, if it is set.

    Otherwise `fixtures` in the working directory, those of turngate's checkout, and those in its package.
    """
    named = os.environ.get("TURNGATE_FIXTURES")
    candidates = [Path(named)] if named else [Path("fixtures"), CHECKOUT, PACKAGED]
    return [candidate for candidate in candidates if candidate.is_dir()]


def default_folder() -> Path | None:
    """Return the default folder for recordings: the fixtures of the checkout, if the working directory is in it."""
    return CHECKOUT if CHECKOUT.is_dir() and Path.cwd().is_relative_to(CHECKOUT.parent) else None


def newest(engine: str) -> str | None:
    """Return the newest recorded version."""
    return next(reversed(releases(engine)), None)


def releases(engine: str, roots: Sequence[Path] | None = None) -> dict[str, Path]:
    """Return each recorded version, oldest first, with the nearest of `roots` (else of all folders) that has it."""
    nearest = {
        path.name: root
        for root in reversed(folders() if roots is None else roots)
        for path in (root / engine).glob("*")
        if Version.is_valid(path.name)
    }
    return {version: nearest[version] for version in sorted(nearest, key=Version.parse)}


class ContractRecordings(Struct, frozen=True):
    """The recordings of a contract: their folders, nearest first; `whole`: there are no others."""

    folders: Sequence[Path]
    whole: bool

    def lacks(self, name: str) -> bool:
        """Whether a recording, `engine/version/case-step`, certainly doesn't exist."""
        if any((root / name / "recording.yaml").is_file() for root in self.folders):
            return False
        # those of a release are together
        return self.whole or any((root / name).parent.is_dir() for root in self.folders)

    def releases(self, engine: str) -> dict[str, Path]:
        """Return each recorded version, oldest first, with the nearest folder that has it."""
        return releases(engine, self.folders)

    def broken(self, engine: str) -> set[str]:
        """Return the releases listed as broken, as `engine@version`; ContractError if a list is invalid."""
        names = {name for root in self.folders for name in _listed(root / BROKEN)}
        return {name for name in names if name.partition("@")[0] == engine}


def contract_recordings(file: Path, fixtures: Path | None = None) -> ContractRecordings | None:
    """Find a contract's recordings: the given folder, else those of its overlay and of the checkout or package."""
    if fixtures is not None:
        return ContractRecordings((fixtures,), whole=True)
    parent = file.resolve().parent
    own = (parent.parent / "fixtures",) if parent.name == "engines" else ()
    whole = CHECKOUT.is_dir()
    roots = [root for root in (*own, CHECKOUT if whole else PACKAGED) if root.is_dir()]
    return ContractRecordings(roots, whole=whole) if roots else None


def _listed(file: Path) -> list[str]:
    """Read a list of broken releases: names, each with what is wrong with it."""
    if not file.is_file():
        return []
    document = load.read(file)
    if not isinstance(document.data, dict) or not all(isinstance(why, str) and why for why in document.data.values()):
        raise ContractError("is not a list of broken releases", str(file), hint="write `engine@version: why`")
    return list(document.data)
