"""From what a user names (`codex`, `codex@0.169.0`, `codex=/path`) to a release that can be probed."""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from turngate.contract import load
from turngate.contract.structs import EngineContract
from turngate.errors import EnvironmentFailed, NoVersionError
from turngate.process import ProcessRequest, Stop, run
from turngate.process.executable import is_simulated
from turngate_probes.harness.sandbox import sandbox
from turngate_probes.releases import recorded_releases
from turngate_probes.releases.cache import home_of, in_use
from turngate_probes.releases.install import Say, default_cache, install, pinned_version

_TARGET = re.compile(r"(?P<engine>[a-z][a-z0-9-]*)(?:@(?P<version>[^=@]+)|=(?P<path>.+))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Target:
    """What was asked for: an engine, and at most one of a version and an executable."""

    engine: str
    version: str | None = None
    path: Path | None = None

    def __str__(self) -> str:
        """Render as users write it."""
        return self.engine + (f"@{self.version}" if self.version else f"={self.path}" if self.path else "")


@dataclass(frozen=True, slots=True)
class Release:
    """A release to probe: `source` is `path`, `npm` or `recordings`, which have no executable.

    `version` None means that the executable did not say one; `note` says how it was chosen.
    """

    engine: str
    version: str | None
    executable: Path | None
    source: str
    contract: EngineContract
    note: str

    @property
    def name(self) -> str:
        """The release as `engine@version`."""
        return f"{self.engine}@{self.version or 'unknown'}"


def parse_target(text: str) -> Target:
    """Read a target; EnvironmentFailed says what one looks like."""
    found = _TARGET.fullmatch(text)
    if not found or found["engine"] not in load.engines():
        hint = f"write ENGINE, ENGINE@VERSION or ENGINE=PATH; engines: {', '.join(load.engines())}"
        raise EnvironmentFailed(f"{text!r} names no engine", hint)
    return Target(found["engine"], found["version"], Path(found["path"]).expanduser() if found["path"] else None)


def resolve(target: Target, say: Say, stop: Stop | None = None) -> Release:
    """Find or install what a target names; EnvironmentFailed: it can't be had; NotCoveredError: nothing covers it."""
    contract = load.contract(target.engine).at()
    if target.path is not None:
        if not target.path.is_file() or not os.access(target.path, os.X_OK):
            raise EnvironmentFailed(f"there is no executable {target.path}", "give the path of the engine's command")
        return _of_path(contract, target.path.absolute(), "the executable that was named", stop)
    if target.version is not None:
        return _of_npm(contract, target.version, "installed on request", say, stop)
    if found := shutil.which(contract.executable):
        return _of_path(contract, Path(found), "found on PATH", stop)
    if contract.lifecycle.status == "sealed":
        version = recorded_releases.newest(target.engine)
        if version is None:
            hint = "run from a checkout, which holds recordings, or name an executable"
            raise EnvironmentFailed(
                f"{target.engine} was withdrawn, and neither executable nor recording is at hand", hint
            )
        contract = load.contract(target.engine).at(version)
        return Release(target.engine, version, None, "recordings", contract, "withdrawn: judged by recordings alone")
    pinned = pinned_version(target.engine)
    if pinned is None:
        raise EnvironmentFailed(f"{contract.executable} is not on PATH", "install it, or name it as ENGINE=PATH")
    return _of_npm(contract, pinned, "not on PATH: the pinned release", say, stop)


@contextmanager
def held(target: Target, say: Say, stop: Stop | None = None) -> Iterator[Release]:
    """Find or install what a target names, and keep it from being evicted while the block runs; raises as `resolve`."""
    release = resolve(target, say, stop)
    with ExitStack() as holding:
        if release.source == "npm" and release.version:
            holding.enter_context(in_use(home_of(release.engine, default_cache()) / release.version))
        yield release


def _of_npm(contract: EngineContract, version: str, note: str, say: Say, stop: Stop | None) -> Release:
    if contract.npm is None:
        raise EnvironmentFailed(f"npm has no releases of {contract.engine}", "name an executable as ENGINE=PATH")
    installed = install(contract.engine, contract.npm, version, default_cache(), say=say, stop=stop)
    exact = load.contract(contract.engine).at(installed.version)
    return Release(contract.engine, installed.version, installed.executable, "npm", exact, note)


def _of_path(contract: EngineContract, executable: Path, note: str, stop: Stop | None) -> Release:
    version = _said_version(contract, executable, stop)
    exact = load.contract(contract.engine).at(version)
    if is_simulated(executable):
        note += "; simulated, so this says nothing about the real engine"
    return Release(contract.engine, version, executable, "path", exact, note)


def _said_version(contract: EngineContract, executable: Path, stop: Stop | None) -> str | None:
    """Ask an executable for its version; None if it gives none that the contract can read."""
    query = contract.version_query
    with (
        tempfile.TemporaryDirectory() as parent,
        sandbox(contract.hermetic, Path(parent), "version", keep=False) as box,
    ):
        env = box.env(contract.hermetic, box.work)
        outcome = run(ProcessRequest((str(executable), *query.argv), box.work, env, timeout=60.0), stop=stop)
    printed = outcome.stdout if query.stream == "stdout" else outcome.stderr
    found = re.fullmatch(query.pattern, printed.decode("utf-8", "replace").strip())
    if not found:
        return None
    try:
        load.contract(contract.engine).at(found["version"])
    except NoVersionError:
        return None
    return found["version"]
