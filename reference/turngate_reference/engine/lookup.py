"""Finds an engine on this machine and the claims that hold for its release."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, json

from turngate import EngineContract, NotCoveredError, Stop, engine_version, find_executable
from turngate.contract.cached import cached_contract
from turngate.decoding import decode
from turngate.files import read_regular, write_atomically
from turngate.process.executable import identity
from turngate_reference.data_dir import DataDir


class InstalledEngine(Struct, frozen=True):
    """An engine's executable and its contract; `version` None: it did not print one.

    `identity` is the file's when it was examined; empty if nobody did.
    """

    executable: Path
    version: str | None
    contract: EngineContract
    identity: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """A key that distinguishes it from other engines, and its file from earlier ones."""
        return self.contract.engine, str(self.executable), self.identity


def find_engine(engine: str, data: DataDir, stop: Stop) -> InstalledEngine:
    """Find an engine on PATH; NotInstalledError if it is not installed, ContractError if it has no contract.

    Asking an engine for its version may take seconds, so the answer is cached until the executable changes.
    """
    newest = cached_contract(engine)
    executable = find_executable(newest)
    version = version_of(newest, executable, data, dict(os.environ), stop)
    return InstalledEngine(executable, version, contract_for(engine, version))


def contract_for(engine: str, version: str | None) -> EngineContract:
    """Return the contract for a release, or for the newest one where it does not cover the release."""
    with suppress(NotCoveredError):
        return cached_contract(engine, version)
    return cached_contract(engine)


def version_of(
    newest: EngineContract, executable: Path, data: DataDir, env: Mapping[str, str], stop: Stop
) -> str | None:
    """Return an executable's version, from the cache if the file has not changed; None: it prints none."""
    now = identity(executable)
    known = _known_versions(data)
    # by the name on PATH, since version managers link the names of many engines to one program
    seen, version = known.get(str(executable), ("", ""))
    if seen != now:
        version = engine_version(newest, executable, env, stop) or ""
        # a cache that can't be written only costs time
        with suppress(OSError):
            if version:
                data.make()
                text = json.format(json.encode(known | {str(executable): (now, version)})).decode()
                write_atomically(data.versions, text + "\n", private=True)
    return version or None


def _known_versions(data: DataDir) -> dict[str, tuple[str, str]]:
    """Return the cached identity and version of executables; empty if the cache can't be read."""
    with suppress(OSError, ValueError):
        return decode(read_regular(data.versions), dict[str, tuple[str, str]])
    return {}
