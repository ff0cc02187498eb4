"""Finds out which release an executable is: by its package, else by asking it where it will run.

The shim of a version manager is one file for many releases, of which it picks one by the directory that it runs in. A
wrapper can do the same. So what an executable once said holds elsewhere only if its own package says which release it
is. All others are asked in the directory of the turn, under the guards of the turn.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from turngate.contract.engine_contract import EngineContract
from turngate.decoding import decode
from turngate.files import read_regular
from turngate.process.executable import engine_version, is_simulated
from turngate.process.execution import Stop
from turngate.process.supplied_files import guarded_environment

_LONGEST = 2**20  # bytes of a package's own description
_PLATFORM = "{platform}"
_MODULES = "node_modules/"
_VERSION = re.compile(r"\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?")
_BUILD = re.compile(r"-(?:linux|darwin|win32)-\w+$")  # what codex adds to the versions of its builds


class _Package(Struct, frozen=True):
    name: str
    version: str


def package_version(contract: EngineContract, executable: Path) -> str | None:
    """Return the release by the description of the package that an executable belongs to; runs nothing.

    None: it belongs to no package of the engine, or the package's version is none of a release.
    """
    real = Path(os.path.realpath(executable))
    version = _BUILD.sub("", _by_npm(contract, real) or _by_pypi(contract, real) or "")
    return version if _VERSION.fullmatch(version) else None


def place_to_ask(contract: EngineContract, executable: Path, folder: Path) -> Path | None:
    """Return where to ask an executable which release it is in a directory, as `version_in_folder` does.

    It is the directory, or the nearest one above it if it does not exist yet. None: the directory makes no difference.
    """
    if is_simulated(executable) or package_version(contract, executable) is not None:
        return None
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.is_dir())


def version_in_folder(
    contract: EngineContract, executable: Path, folder: Path, env: Mapping[str, str], stop: Stop | None = None
) -> str | None:
    """Return the version that an executable reports in the directory of a turn; None if it prints none.

    It has the variables by which the contract guards a turn. MachineError or UsageError: it can't be started.
    """
    return engine_version(contract, executable, guarded_environment(env, contract.guards), stop, folder)


def _by_npm(contract: EngineContract, real: Path) -> str | None:
    """Return the version in the nearest description above a program, if it is of the engine."""
    names = "|".join(_names(contract))
    for folder in real.parents:
        with suppress(OSError, ValueError, RecursionError):
            found = decode(read_regular(folder / "package.json", _LONGEST), _Package)
            return found.version if re.fullmatch(names, found.name) else None
    return None


def _names(contract: EngineContract) -> Iterator[str]:
    """Yield patterns of the names of an engine's packages, and of those with its build for each platform."""
    yield from map(re.escape, contract.packages)
    for path in contract.npm.executables if contract.npm else ():
        name = path.removeprefix(_MODULES).split("/")[: 2 if path.startswith(f"{_MODULES}@") else 1]
        if _PLATFORM in (text := "/".join(name)):
            yield re.escape(text).replace(re.escape(_PLATFORM), r"\w+-\w+")


def _by_pypi(contract: EngineContract, real: Path) -> str | None:
    """Return the version in the name of the description that pip left in the environment of a script."""
    packages = {_normal(name) for name in contract.packages}
    with suppress(OSError):
        for found in sorted(real.parent.parent.glob("lib/python*/site-packages/*.dist-info")):
            name, _, version = found.name.removesuffix(".dist-info").partition("-")
            if _normal(name) in packages:
                return version
    return None


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()
