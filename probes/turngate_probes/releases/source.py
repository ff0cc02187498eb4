"""Converts targets to releases that are ready to be probed."""

import errno
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from turngate import (
    EngineContract,
    MachineError,
    NotFoundError,
    NotInstalledError,
    NoVersionError,
    Stop,
    UsageError,
    load_contract,
)
from turngate.contract import load
from turngate.process.executable import is_simulated, missing_interpreter, query_version
from turngate_probes.harness.first_turn import INSTALL
from turngate_probes.harness.package_managers import find_program
from turngate_probes.harness.registry_hosts import is_registry
from turngate_probes.harness.sandbox import sandbox
from turngate_probes.journal.events import Origin
from turngate_probes.releases import recorded_releases
from turngate_probes.releases.cache import MAKE_ROOM, MARKER, CacheLimit, Say, in_use
from turngate_probes.releases.npm import NO_NPM, NpmRegistry
from turngate_probes.releases.pins import pinned_version
from turngate_probes.releases.pypi import PypiRegistry
from turngate_probes.releases.registry import Registry, RegistryName
from turngate_probes.releases.target import Target

TEST_ONE = (
    "name one: `turngate probe codex` installs the pinned release and tests it, and "
    "`turngate probe codex=/path/to/codex` tests an executable"
)
ABSENT = "is not on PATH"
_NAME_IT = "pass an executable as ENGINE=PATH"


def registries(engine: str) -> dict[str, Registry]:
    """Return the registries that have an engine's releases, by their names, without querying them."""
    contract = load_contract(engine)
    pypi = contract.published.pypi
    return {
        **({"npm": NpmRegistry(engine, contract.npm.package, contract.npm.executables)} if contract.npm else {}),
        **({"pypi": PypiRegistry(engine, pypi.package, (contract.executable,))} if pypi else {}),
    }


def default_registry(engine: str) -> Registry | None:
    """Return the registry that an engine's releases come from if none is named: npm if it is there, else PyPI."""
    return next(iter(registries(engine).values()), None)


def published(engine: str, name: RegistryName | None = None, stop: Stop | None = None) -> Registry:
    """Query a registry for the releases of an engine; None is its default one.

    TurngateError if it has none or can't be reached.
    """
    known = registries(engine)
    if not known:
        raise _not_installable(load_contract(engine))
    name = name or next(iter(known.values())).name
    if name not in known:
        raise NotFoundError(f"{engine} is not published on {name}", f"use --registry {next(iter(known))}")
    if name == "npm" and "pypi" in known and not find_program("npm"):
        raise NotInstalledError(NO_NPM, f"or install {engine} from PyPI, which needs no Node: --registry pypi")
    return known[name].listed(stop)


class Release(Struct, frozen=True):
    """A release to probe: `source` is `path`, `npm`, `pypi` or `recordings`, which have no executable.

    `version` None means that the executable didn't report one; `note` says how it was chosen, and
    `integrity` is the checksum of the engine's own package, in its registry's notation, and `output` an output mode
    other than the default one, to which the contract then belongs.
    """

    engine: str
    version: str | None
    executable: Path | None
    source: Origin
    contract: EngineContract
    note: str
    integrity: str | UnsetType = UNSET
    output: str | UnsetType = UNSET

    @property
    def name(self) -> str:
        """The release as `engine@version`."""
        return f"{self.engine}@{self.version or 'unknown'}"

    @property
    def build(self) -> str:
        """The name, plus the executable unless turngate installed it: two executables may have the same version."""
        return f"{self.name} ({self.executable})" if self.source == "path" else self.name

    def in_output(self, name: str) -> "Release":
        """Return the release with another output mode; UsageError if it has none of this name."""
        contract = self.contract.in_output(name)
        return self if contract is self.contract else replace(self, contract=contract, output=name)


class UnfitWrapperError(UsageError):
    """The executable is a wrapper that can't run its engine in a sandbox."""


class ReleaseSource:
    """Provides every release that is probed, and protects it from eviction while it is in use.

    Versions come from `registry`, which was already queried, or from the engine's default one. With `limit`, an
    installation waits for space in the cache, and leaves none of npm's own files behind.
    """

    def __init__(self, registry: Registry | None = None, limit: CacheLimit | None = None) -> None:
        self.registry, self._limit = registry, limit

    def origin(self, engine: str) -> RegistryName | Literal["none"]:
        """Return the name of the registry that an engine's releases come from, or `none`."""
        registry = self.registry or default_registry(engine)
        return registry.name if registry else "none"

    @contextmanager
    def held(self, target: Target, say: Say, stop: Stop | None = None) -> Iterator[Release]:
        """Find or install the release of a target, and protect it from eviction while the block runs.

        Without version and path, that is the executable on PATH, else the pinned release, or the newest recordings of
        an engine that was withdrawn. TurngateError: it is not available; NotCoveredError: no contract covers it;
        UsageError: it has no such output mode.
        """
        with self._found(target, say, stop) as release:
            if release.executable and (missing := missing_interpreter(release.executable)):
                what = f"{release.executable} runs with {missing}, which is not here"
                raise NotInstalledError(
                    what, f"install {'Node.js' if missing == 'node' else missing}, or put it on PATH"
                )
            yield release.in_output(target.output) if target.output else release

    @contextmanager
    def _found(self, target: Target, say: Say, stop: Stop | None) -> Iterator[Release]:
        whole = load.contract(target.engine)
        contract = whole.at()
        if target.path is not None:
            if not target.path.is_file() or not os.access(target.path, os.X_OK):
                raise _no_executable(target.path)
            yield _of_path(contract, target.path.absolute(), "the given executable", stop)
        elif target.version is not None:
            with self._installed(whole, target.version, "installed on request", say, stop) as release:
                yield release
        elif on_path := shutil.which(contract.executable):
            yield _of_path(contract, Path(on_path), "found on PATH", stop)
        elif contract.lifecycle.status == "sealed":
            yield _recorded(target.engine)
        elif (pinned := pinned_version(target.engine)) is None:
            raise NotInstalledError(f"{contract.executable} is not on PATH", f"install it, or {_NAME_IT}")
        else:
            with self._installed(whole, pinned, "not on PATH: the pinned release", say, stop) as release:
                yield release

    @contextmanager
    def _installed(
        self, contract: load.Contract, version: str, note: str, say: Say, stop: Stop | None
    ) -> Iterator[Release]:
        registry = self.registry or default_registry(contract.engine)
        if registry is None:
            raise _unpublished(contract.at(), version)
        version = registry.exact(version, stop)
        exact, root = contract.at(version), registry.root(version)
        with ExitStack() as holding:
            try:
                if self._limit:
                    holding.enter_context(self._limit.held(root))
                holding.enter_context(in_use(root))
                with ExitStack() as installing:
                    if self._limit and not (root / MARKER).exists():
                        installing.enter_context(self._limit.reserved(root, say))
                    installed = registry.install(version, say, stop, lean=self._limit is not None)
            except OSError as error:
                if error.errno in (errno.ENOSPC, errno.EDQUOT):
                    raise MachineError(f"the disk of {root.parent} is full", MAKE_ROOM) from error
                hint = "fix its permissions, or set TURNGATE_CACHE_DIR to another folder"
                raise MachineError(f"the cache cannot be written: {error}", hint) from error
            if self.registry:
                note = f"installed from {registry.name}, {installed.integrity}"
            yield Release(
                contract.engine, version, installed.executable, registry.name, exact, note, installed.integrity
            )


def _unpublished(contract: EngineContract, version: str) -> NotFoundError:
    """Return why no release of an engine can be installed, and what to use instead."""
    engine = contract.engine
    if contract.lifecycle.status != "sealed":
        return _not_installable(contract)
    what = f"{engine}@{version} can't be installed: its vendor withdrew {engine}"
    recorded = recorded_releases.newest(engine)
    return NotFoundError(
        what,
        f"probe the recordings of {recorded} with turngate probe {engine}, or {_NAME_IT}" if recorded else _NAME_IT,
    )


def _not_installable(contract: EngineContract) -> NotFoundError:
    what = f"turngate can't install {contract.engine}: its contract names no package"
    return NotFoundError(what, contract.lifecycle.note or _NAME_IT)


def not_installed(engine: str) -> str | None:
    """Return why an engine is not among those that are installed here; None if it is."""
    executable = load_contract(engine).executable
    return None if shutil.which(executable) else f"{executable} {ABSENT}"


def not_pinned(engine: str) -> str | None:
    """Return why the releases that are installed without naming one have none of an engine; None if they do."""
    if load_contract(engine).additional:
        return f"{engine} is an additional engine: name it to probe it"
    return None if pinned_version(engine) else "no release is pinned"


def of_pin(target: Target) -> Target:
    """Return the pinned release of a target that names none; the recordings of a withdrawn engine stay.

    UsageError: no release is pinned.
    """
    if target.version or target.path or load_contract(target.engine).lifecycle.status == "sealed":
        return target
    if (version := pinned_version(target.engine)) is None:
        raise UsageError(f"no release of {target.engine} is pinned", f"write {target.engine}=PATH")
    return replace(target, version=version)


def _recorded(engine: str) -> Release:
    version = recorded_releases.newest(engine)
    if version is None:
        raise NotInstalledError(f"{engine} was withdrawn, and there is neither an executable nor a recording", _NAME_IT)
    contract = load_contract(engine, version)
    return Release(engine, version, None, "recordings", contract, "withdrawn: judged only by recordings")


def _no_executable(path: Path) -> UsageError:
    """Return why a path can't be run; a command line is told apart from a path that doesn't exist."""
    program, *arguments = str(path).split()
    if arguments and not path.exists() and shutil.which(program):
        what = f"{str(path)!r} is a command line, not the path of an executable"
        return UsageError(what, "put it into a script and pass the path of that: see Wrappers in the documentation")
    if path.is_file():
        return UsageError(f"{path} exists, but isn't executable", f"run: chmod +x {shlex.quote(str(path))}")
    return NotFoundError(f"there is no executable {path}", "pass the path of the engine's command")


def _of_path(contract: EngineContract, executable: Path, note: str, stop: Stop | None) -> Release:
    """Query the version of an executable; None if its output doesn't match the contract."""
    with (
        tempfile.TemporaryDirectory() as parent,
        sandbox(contract.hermetic, Path(parent), "version", keep=False) as box,
    ):
        env = box.env(contract.hermetic, box.work)
        version, why = query_version(contract.version_query, executable, env, stop, box.work)
        hosts = [tried.host for tried in box.backend.egress()]
    if version is None and (host := next(filter(is_registry, hosts), None)):
        what = f"the executable needs the package registry {host} to print its version, and a probe can't reach it"
        raise UnfitWrapperError(what, INSTALL)
    # remarks are separated by semicolons
    note += f"; no version: {why.replace('; ', ', ')}" if why else ""
    try:
        exact = load_contract(contract.engine, version)
    except NoVersionError:
        exact, version = contract, None
    if is_simulated(executable):
        note += "; simulated, so this says nothing about the real engine"
    return Release(contract.engine, version, executable, "path", exact, note)
