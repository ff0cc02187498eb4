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
from turngate.runtime import ProcessRequest, run
from turngate_reference.data_dir import DataDir

_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class InstalledEngine:
    """An engine's executable and its contract; `version` None means that it did not say one."""

    executable: Path
    version: str | None
    contract: EngineContract


def find_engine(engine: str, data: DataDir) -> InstalledEngine:
    """Find an engine on PATH; EnvironmentFailed if it is not installed, ContractError if it has no contract.

    Asking an engine for its version may take seconds, so the answer is kept until the executable changes.
    """
    newest = load.contract(engine).at()
    found = shutil.which(newest.executable)
    if found is None:
        raise EnvironmentFailed(f"{newest.title} is not installed: no {newest.executable} on PATH", "install it")
    executable = Path(found)
    real = executable.resolve()
    stat = real.stat()
    identity = f"{stat.st_size} {stat.st_mtime_ns}"
    known = _known(data)
    if known.get(str(real), ["", None])[0] != identity:
        known[str(real)] = [identity, _ask(newest, executable)]
        _keep(data, known)
    version = known[str(real)][1]
    if version is None:
        return InstalledEngine(executable, None, newest)
    return InstalledEngine(executable, version, load.contract(engine).at(version))


def _ask(contract: EngineContract, executable: Path) -> str | None:
    query = contract.version_query
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ) | {"PWD": folder}
        outcome = run(ProcessRequest((str(executable), *query.argv), Path(folder), env, timeout=_TIMEOUT))
    printed = outcome.stdout if query.stream == "stdout" else outcome.stderr
    found = re.fullmatch(query.pattern, printed.decode("utf-8", "replace").strip())
    with suppress(ValueError, NotCoveredError):
        if found:
            load.contract(contract.engine).at(found["version"])
            return found["version"]
    return None


def _known(data: DataDir) -> dict[str, list[str | None]]:
    with suppress(OSError, ValueError):
        known = json.loads(data.versions.read_text("utf-8"))
        if isinstance(known, dict) and all(isinstance(v, list) and len(v) == 2 for v in known.values()):  # noqa: PLR2004
            return known
    return {}


def _keep(data: DataDir, known: dict[str, list[str | None]]) -> None:
    """Remember versions; a cache that can't be written only costs time."""
    with suppress(OSError):
        data.root.mkdir(parents=True, exist_ok=True)
        temporary = data.versions.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(json.dumps(known, indent=2) + "\n", "utf-8")
        temporary.replace(data.versions)
