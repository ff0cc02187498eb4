"""Where an accepted release is written: the checkout, or an overlay of the user's; never an installed package."""

from dataclasses import dataclass
from pathlib import Path

import turngate
from turngate.errors import EnvironmentFailed
from turngate.lint import lay_over
from turngate.overlay import contract_files, overlay
from turngate_probes.releases import PINS, pin_of


@dataclass(frozen=True, slots=True)
class Place:
    """The folders of contracts, pins and recordings."""

    contracts: Path
    pins: Path
    fixtures: Path

    def contract(self, engine: str) -> Path:
        """Name the contract file of an engine, which may not be there yet."""
        return self.contracts / f"{engine}.yaml"

    def pin(self, engine: str) -> Path:
        """Name the folder of an engine's pin, which may not be there yet."""
        return self.pins / engine


def place(contracts: Path | None, *, accept: bool) -> Place | None:
    """Lay the user's contracts over ours, and say where to write if asked to; EnvironmentFailed: there is no place."""
    folder = contracts.absolute() if contracts else overlay()
    if contracts and folder and (mistakes := lay_over(folder)):
        raise mistakes[0]
    if not accept:
        return None
    if folder:
        return Place(folder / "engines", folder / "pins", folder / "fixtures")
    root = checkout()
    if root is None:
        what = "turngate is installed here, and an installed package is never changed"
        raise EnvironmentFailed(what, "give --contracts DIR to keep contracts, pins and recordings of your own there")
    return Place(root / "contracts/turngate/engines", PINS, root / "fixtures")


def checkout() -> Path | None:
    """Find the checkout that both packages run from; None if they are installed."""
    root = PINS.parents[2]
    ours = (Path(turngate.__file__).parent, PINS) == (root / "contracts/turngate", root / "probes/turngate_probes/pins")
    return root if ours and (root / "pyproject.toml").is_file() and (root / "fixtures").is_dir() else None


def source(engine: str) -> tuple[Path, Path]:
    """Give the contract file and the pin that are in force."""
    return contract_files()[engine], pin_of(engine)
