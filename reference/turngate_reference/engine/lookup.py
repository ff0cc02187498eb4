"""Finds an engine on this machine and the claims that hold for its release."""

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from turngate.contract import load
from turngate.contract.structs import EngineContract
from turngate.errors import EnvironmentFailed, NotCoveredError
from turngate.files import write_atomically
from turngate.process import Stop
from turngate.process.executable import identity, version_said
from turngate_reference.data_dir import DataDir


class InstalledEngine(Struct, frozen=True):
    """An engine's executable and its contract; `version` None means that it did not say one.

    `identity` is that of the file when it was looked at; empty where nobody looked.
    """

    executable: Path
    version: str | None
    contract: EngineContract
    identity: str = ""


def find_engine(engine: str, data: DataDir, stop: Stop) -> InstalledEngine:
    """Find an engine on PATH; EnvironmentFailed if it is not installed, ContractError if it has no contract.

    Asking an engine for its version may take seconds, so the answer is kept until the executable changes.
    """
    contract = load.contract(engine)
    newest = contract.at()
    executable = locate(newest)
    version = version_of(newest, executable, data, dict(os.environ), stop)
    return InstalledEngine(executable, version, covering(contract, newest, version))


def locate(newest: EngineContract) -> Path:
    """Find an engine's executable on PATH; EnvironmentFailed if there is none."""
    found = shutil.which(newest.executable)
    if found is None:
        hint = f"install it: npm install --global {newest.npm.package}" if newest.npm else "put it on PATH"
        raise EnvironmentFailed(f"{newest.title} is not installed: no {newest.executable} on PATH", hint)
    return Path(found).absolute()


def version_of(
    newest: EngineContract, executable: Path, data: DataDir, env: Mapping[str, str], stop: Stop
) -> str | None:
    """Return the release that an executable says to be, by memory if the file has not changed; None: it says none."""
    now = identity(executable)
    known = _known(data)
    # by the name on PATH, since version managers lead the names of many engines to one program of theirs
    seen, version = known.get(str(executable), ("", ""))
    if seen != now:
        version = version_said(executable, newest.version_query, env, stop) or ""
        if version:
            _keep(data, known | {str(executable): [now, version]})
    return version or None


def covering(contract: load.Contract, newest: EngineContract, version: str | None) -> EngineContract:
    """Resolve the claims for a release, those of the newest one where nothing else is said of it."""
    with suppress(ValueError, NotCoveredError):
        return contract.at(version)
    return newest


def _known(data: DataDir) -> dict[str, list[str]]:
    with suppress(OSError, ValueError):
        known = json.loads(data.versions.read_text("utf-8"))
        if isinstance(known, dict) and all(isinstance(each, list) and len(each) == 2 for each in known.values()):  # noqa: PLR2004
            return known
    return {}


def _keep(data: DataDir, known: dict[str, list[str]]) -> None:
    """Remember versions; a cache that can't be written only costs time."""
    with suppress(OSError):
        data.make()
        write_atomically(data.versions, json.dumps(known, indent=2) + "\n")
