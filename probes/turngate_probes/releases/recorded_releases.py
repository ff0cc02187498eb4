"""Which recordings there are, where they lie, and which of their releases are known to miss their contract."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from semver import Version

from turngate.contract import load
from turngate.errors import ContractError

CHECKOUT = Path(__file__).resolve().parents[3] / "fixtures"
BROKEN = "broken.yaml"


def folder() -> Path | None:
    """Find the recordings: `TURNGATE_FIXTURES`, else `fixtures` in the working directory or in our checkout."""
    named = os.environ.get("TURNGATE_FIXTURES")
    candidates = [Path(named)] if named else [Path("fixtures"), CHECKOUT]
    return next((candidate for candidate in candidates if candidate.is_dir()), None)


def newest(engine: str) -> str | None:
    """Return the newest version of which there are recordings."""
    return next(reversed(versions(engine)), None)


def versions(engine: str, root: Path | None = None) -> list[str]:
    """Return every version of which there are recordings (in `root`, else where they are found), oldest first."""
    root = root or folder()
    if root is None or not (root / engine).is_dir():
        return []
    return sorted((path.name for path in (root / engine).iterdir() if Version.is_valid(path.name)), key=Version.parse)


@dataclass(frozen=True, slots=True)
class ContractRecordings:
    """The recordings of a contract: their folders, the nearest first; `whole`: what is in none of them is nowhere."""

    folders: Sequence[Path]
    whole: bool

    def lacks(self, name: str) -> bool:
        """Whether a recording, `engine/version/case-step`, is missing for sure."""
        if any((root / name / "recording.yaml").is_file() for root in self.folders):
            return False
        # those of a release stand together
        return self.whole or any((root / name).parent.is_dir() for root in self.folders)

    def releases(self, engine: str) -> dict[str, Path]:
        """Return each version of which there are recordings, oldest first, with the nearest folder that has it."""
        nearest = {version: root for root in reversed(self.folders) for version in versions(engine, root)}
        return {version: nearest[version] for version in sorted(nearest, key=Version.parse)}

    def broken(self, engine: str) -> set[str]:
        """Name the releases that are listed as broken, as `engine@version`; ContractError if a list is none."""
        names = {name for root in self.folders for name in _listed(root / BROKEN)}
        return {name for name in names if name.partition("@")[0] == engine}


def contract_recordings(file: Path, fixtures: Path | None = None) -> ContractRecordings | None:
    """Find the recordings of a contract file: the named folder, else those of its overlay and of our checkout."""
    if fixtures is not None:
        return ContractRecordings((fixtures,), whole=True)
    parent = file.resolve().parent
    own = (parent.parent / "fixtures",) if parent.name == "engines" else ()
    folders = [root for root in (*own, CHECKOUT) if root.is_dir()]
    return ContractRecordings(folders, whole=CHECKOUT in folders) if folders else None


def _listed(file: Path) -> list[str]:
    """Read a list of broken releases: names, each with what is wrong with it."""
    if not file.is_file():
        return []
    document = load.parse(file.read_text("utf-8"), str(file))
    if not isinstance(document.data, dict) or not all(isinstance(why, str) and why for why in document.data.values()):
        raise ContractError("is no list of broken releases", str(file), hint="write `engine@version: why`")
    return list(document.data)
