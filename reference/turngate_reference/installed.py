"""Finds an engine on this machine and the claims that hold for its release."""

import json
import os
import re
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from turngate import load
from turngate.contract import EngineContract
from turngate.errors import EnvironmentFailed, NotCoveredError
from turngate.runtime import ProcessRequest, Stop, run
from turngate_reference.data_dir import DataDir

_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class InstalledEngine:
    """An engine's executable and its contract; `version` None means that it did not say one."""

    executable: Path
    version: str | None
    contract: EngineContract


def find_engine(engine: str, data: DataDir, stop: Stop) -> InstalledEngine:
    """Find an engine on PATH; EnvironmentFailed if it is not installed, ContractError if it has no contract.

    Asking an engine for its version may take seconds, so the answer is kept until the executable changes.
    """
    contract = load.contract(engine)
    newest = contract.at()
    found = shutil.which(newest.executable)
    if found is None:
        hint = f"install it: npm install --global {newest.npm.package}" if newest.npm else "put it on PATH"
        raise EnvironmentFailed(f"{newest.title} is not installed: no {newest.executable} on PATH", hint)
    executable = Path(found).absolute()
    stat = executable.stat()
    identity = f"{stat.st_ino} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}"
    known = _known(data)
    # by the name on PATH, since version managers lead the names of many engines to one program of theirs
    seen, version = known.get(str(executable), ("", ""))
    if seen != identity:
        version = _ask(newest, executable, stop)
        if version:
            _keep(data, known | {str(executable): [identity, version]})
    with suppress(ValueError, NotCoveredError):
        return InstalledEngine(executable, version or None, contract.at(version or None))
    return InstalledEngine(executable, version, newest)


def _ask(contract: EngineContract, executable: Path, stop: Stop) -> str:
    """Ask the executable for its version; empty if it says none."""
    query = contract.version_query
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ) | {"PWD": folder}
        request = ProcessRequest((str(executable), *query.argv), Path(folder), env, timeout=_TIMEOUT)
        outcome = run(request, stop=stop)
    printed = outcome.stdout if query.stream == "stdout" else outcome.stderr
    found = re.fullmatch(query.pattern, printed.decode("utf-8", "replace").strip())
    return found["version"] if found else ""


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
        temporary = data.versions.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(known, indent=2) + "\n", "utf-8")
        temporary.replace(data.versions)
