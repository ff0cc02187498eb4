"""Where an accepted release is written, and the files that pin it."""

import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import turngate
from turngate import EnvironmentFailed, Stop
from turngate.contract.lint import lay_over
from turngate.contract.structs import Npm
from turngate.files import overlay
from turngate_probes.releases.npm import PINS, check_integrity, npm

COMMAND = ("install", "--package-lock-only", "--omit-lockfile-registry-resolved")
MANIFEST, LOCK = "package.json", "package-lock.json"


@dataclass(frozen=True, slots=True)
class AcceptTarget:
    """The folders of contracts, pins and recordings."""

    contracts: Path
    pins: Path
    fixtures: Path


def accept_target(contracts: Path | None, *, accept: bool) -> AcceptTarget | None:
    """Apply the user's contracts; return where to write if `accept`, and EnvironmentFailed if there is no place."""
    folder = contracts.absolute() if contracts else overlay()
    if contracts and folder and (mistakes := lay_over(folder)):
        raise mistakes[0]
    if not accept:
        return None
    if folder:
        return AcceptTarget(folder / "engines", folder / "pins", folder / "fixtures")
    root = checkout()
    if root is None:
        what = "turngate is installed here, and --accept never changes an installed package"
        raise EnvironmentFailed(what, "pass --contracts DIR to save your own contracts, pins and recordings there")
    return AcceptTarget(root / "contracts/turngate/engines", PINS, root / "fixtures")


def checkout() -> Path | None:
    """Find the checkout that both packages run from; None if they are installed."""
    root = PINS.parents[3]
    packages = root / "contracts/turngate", root / "probes/turngate_probes/releases/pins"
    ours = (Path(turngate.__file__).parent, PINS) == packages
    return root if ours and (root / "pyproject.toml").is_file() and (root / "fixtures").is_dir() else None


def pin_files(engine: str, source: Npm, version: str, integrity: str, stop: Stop | None = None) -> dict[str, str]:
    """Create the files of a pin; EnvironmentFailed if npm can't, or the content differs from what was probed.

    `integrity` is that of the probed installation (empty: unknown).
    """
    manifest = {"name": f"turngate-pin-{engine}", "private": True, "dependencies": {source.package: version}}
    with tempfile.TemporaryDirectory(prefix="turngate-pin-") as name:
        folder = Path(name)
        (folder / MANIFEST).write_text(_json(manifest), "utf-8")
        npm(COMMAND, folder, stop)
        lock: dict[str, Any] = json.loads((folder / LOCK).read_text("utf-8"))
    for entry in lock["packages"].values():
        entry.pop("resolved", None)
    check_integrity(lock["packages"], {})
    locked = str(lock["packages"][f"node_modules/{source.package}"]["integrity"])
    if integrity and locked != integrity:
        raise EnvironmentFailed(f"{source.package} {version} is not the release that was probed", "run the gate again")
    return {MANIFEST: _json(manifest), LOCK: _json(lock)}


def _json(data: object) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
