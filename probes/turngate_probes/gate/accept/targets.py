"""Where an accepted release is written."""

from pathlib import Path

from msgspec import Struct

import turngate
from turngate import UsageError
from turngate.files import overlay
from turngate_probes.releases.pins import PINS


class AcceptTarget(Struct, frozen=True):
    """The folders of contracts, pins and recordings."""

    contracts: Path
    pins: Path
    fixtures: Path


def accept_target() -> AcceptTarget:
    """Return where to write: into the user's contracts, else into a checkout; UsageError if there is neither."""
    folder = overlay()
    if folder:
        return AcceptTarget(folder / "engines", folder / "pins", folder / "fixtures")
    root = checkout()
    if root is None:
        what = "turngate is installed here, and --accept never changes an installed package"
        raise UsageError(what, "pass --contracts DIR to save your own contracts, pins and recordings there")
    return AcceptTarget(root / "contracts/turngate/engines", PINS, root / "fixtures")


def checkout() -> Path | None:
    """Find the checkout that both packages run from; None if they are installed."""
    root = PINS.parents[3]
    packages = root / "contracts/turngate", root / "probes/turngate_probes/releases/pins"
    ours = (Path(turngate.__file__).parent, PINS) == packages
    return root if ours and (root / "pyproject.toml").is_file() and (root / "fixtures").is_dir() else None
