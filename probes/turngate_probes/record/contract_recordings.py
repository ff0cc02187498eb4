"""Which recordings stand beside a contract, and which of their releases are known to miss it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from turngate.contract import load
from turngate.errors import ContractError
from turngate_probes.releases import recorded_releases

CHECKOUT = Path(__file__).resolve().parents[3] / "fixtures"
BROKEN = "broken.yaml"


@dataclass(frozen=True, slots=True)
class ContractRecordings:
    """Folders of recordings, the nearest first; `whole` says that what is in none of them is nowhere."""

    folders: Sequence[Path]
    whole: bool

    def lacks(self, name: str) -> bool:
        """Return whether a recording, `engine/version/case-step`, is missing for sure."""
        if any((folder / name / "recording.yaml").is_file() for folder in self.folders):
            return False
        # those of a release stand together
        return self.whole or any((folder / name).parent.is_dir() for folder in self.folders)

    def releases(self, engine: str) -> dict[str, Path]:
        """Return each version of which there are recordings, with the nearest folder that has it."""
        found = {v: folder for folder in reversed(self.folders) for v in recorded_releases.versions(engine, folder)}
        return {version: found[version] for version in sorted(found, key=recorded_releases.order)}

    def broken(self, engine: str) -> set[str]:
        """Name the releases that are listed as broken, as `engine@version`; ContractError if a list is none."""
        named = {name for folder in self.folders for name in _listed(folder / BROKEN)}
        return {name for name in named if name.partition("@")[0] == engine}


def contract_recordings(file: Path, fixtures: Path | None = None) -> ContractRecordings | None:
    """Find the recordings of a contract file: the named folder, else those of its overlay and of our checkout."""
    if fixtures is not None:
        return ContractRecordings((fixtures,), whole=True)
    folder = file.resolve().parent
    own = (folder.parent / "fixtures",) if folder.name == "engines" else ()
    found = [each for each in (*own, CHECKOUT) if each.is_dir()]
    return ContractRecordings(found, whole=CHECKOUT in found) if found else None


def _listed(file: Path) -> list[str]:
    """Read a list of broken releases: names, each with what is wrong with it."""
    if not file.is_file():
        return []
    document = load.parse(file.read_text("utf-8"), str(file))
    if not isinstance(document.data, dict) or not all(isinstance(why, str) and why for why in document.data.values()):
        raise ContractError("is no list of broken releases", str(file), hint="write `engine@version: why`")
    return list(document.data)
