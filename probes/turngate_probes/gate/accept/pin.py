"""Pins a release: the manifest and the lock that npm makes of it, without addresses."""

import json
import tempfile
from pathlib import Path
from typing import Any

from turngate.contract import Npm
from turngate.errors import EnvironmentFailed
from turngate.runtime import Stop
from turngate_probes.npm import npm
from turngate_probes.releases import check_integrity

COMMAND = ("install", "--package-lock-only", "--omit-lockfile-registry-resolved")
MANIFEST, LOCK = "package.json", "package-lock.json"


def pin_files(engine: str, source: Npm, version: str, integrity: str, stop: Stop | None = None) -> dict[str, str]:
    """Make the files of a pin; EnvironmentFailed if npm can't, or the content is not that which was probed.

    `integrity` is what was installed and probed (empty: unknown).
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
    found = str(lock["packages"][f"node_modules/{source.package}"]["integrity"])
    if integrity and found != integrity:
        raise EnvironmentFailed(f"{source.package} {version} is not the one that was probed", "run the gate again")
    return {MANIFEST: _json(manifest), LOCK: _json(lock)}


def _json(data: object) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
