"""The releases of one engine in a registry, and their installation into the cache, completely or not at all.

A release is installed in a temporary folder and then renamed, under a file lock, so that no process sees an incomplete
one, and two installations of the same release don't interfere.
"""

import platform
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar, Literal, Self, TypeAlias

from msgspec import Struct, field

from turngate import Ended, MachineError, NotFoundError, Stop, TurngateError
from turngate.files import default_cache
from turngate.sanitize import redact
from turngate_probes.harness.package_managers import run_away
from turngate_probes.releases.cache import MARKER, Say, alone, home_of
from turngate_probes.releases.selection import nearest

RegistryName: TypeAlias = Literal["npm", "pypi"]

LATEST = "latest"
TIMEOUT = 600.0  # seconds; the largest release is about 100 MB
STALE = "{} could not be reached, so releases that it has published lately may be missing"


class Installed(Struct, frozen=True):
    """A release in the cache. `integrity` is the checksum of the engine's own package, in the registry's notation."""

    version: str
    root: Path
    executable: Path
    integrity: str


class Registry(Struct, frozen=True):
    """The releases of one engine: `versions` are the published ones, oldest first, empty if not queried.

    `integrity` is what the registry says of a version's content before it is downloaded. `executables` are where
    the engine's command may lie in an installation. `is_stale` says that the registry could not be reached, so that
    `versions` are those that its package manager had saved.
    """

    name: ClassVar[RegistryName]
    title: ClassVar[str]
    folder_prefix: ClassVar[str] = ""

    engine: str
    package: str
    executables: tuple[str, ...]
    versions: tuple[str, ...] = ()
    integrity: Mapping[str, str] = field(default_factory=dict)
    is_stale: bool = False

    def listed(self, stop: Stop | None) -> Self:
        """Query the published releases; MachineError if the registry can't be reached."""
        raise NotImplementedError

    def with_integrity(self, versions: Iterable[str], stop: Stop | None) -> Self:  # noqa: ARG002 - as npm needs it
        """Add the integrity of published releases that are not in the list, such as pre-releases."""
        return self

    def exact(self, version: str, stop: Stop | None) -> str:
        """Return the exact version; NotFoundError if there is none."""
        raise NotImplementedError

    def _fill(self, version: str, folder: Path, stop: Stop | None, *, lean: bool) -> str:
        """Install a release into an empty folder and return the integrity of what is there."""
        raise NotImplementedError

    def _executable(self, root: Path) -> Path | None:
        """Find the engine's command in an installation."""
        raise NotImplementedError

    def promised(self, version: str) -> str | None:
        """Return the integrity that a release must have, if it is known in advance."""
        return self.integrity.get(version) or None

    def agrees(self, version: str, integrity: str) -> bool:
        """Whether the content of a version is the promised one, if that is known in advance."""
        return integrity == (self.promised(version) or integrity)

    @property
    def staleness(self) -> str:
        """Why a choice of the newest releases may be outdated; empty: it isn't."""
        return STALE.format(self.title) if self.is_stale else ""

    def has(self, version: str) -> bool:
        """Whether the registry is known to have a version."""
        return version in self.versions or version in self.integrity

    def identity(self, version: str) -> str:
        """Return what identifies a release's content: its integrity, or its name if an index never replaces a file."""
        return self.integrity.get(version) or f"{self.name}:{self.package}=={version}"

    def root(self, version: str) -> Path:
        """Return the folder of a release in the cache."""
        return home_of(self.engine, default_cache()) / f"{self.folder_prefix}{version}"

    def is_installed(self, version: str) -> bool:
        """Whether a complete version is in the cache."""
        return self._finished(version, self.root(version)) is not None

    def no_such_version(self, version: str) -> TurngateError:
        """Return an error for a version that isn't published, or not known to be, with the nearest published ones."""
        near = ", ".join(nearest(version, self.versions))
        if self.is_stale:
            what = f"{self.package} {version} is not among the releases known here: {self.staleness}"
            return MachineError(what, f"try again when {self.title} can be reached, or choose a known one: {near}")
        hint = f"nearest: {near}" if near else "it has no published versions"
        return NotFoundError(f"{self.package} has no version {version}", hint)

    def install(self, version: str, say: Say, stop: Stop | None = None, *, lean: bool = False) -> Installed:
        """Return the release at an exact version, installed unless it is complete in the cache.

        `say` gets progress messages, `stop` ends it early; `lean` leaves nothing in the registry's own cache.

        Raises:
            TurngateError: there is no package manager, no registry, no such version, no space or no build for
                this platform, or the content does not match its checksum.
            OSError: the cache can't be written.
        """
        root, named = self.root(version), f"{self.engine} {version}"
        root.parent.mkdir(parents=True, exist_ok=True)
        with alone(root.parent / f".{root.name}.lock", lambda: say(f"{named}: another process is installing it"), stop):
            if installed := self._finished(version, root):
                return installed
            say(f"{named}: installing from {self.title}")
            return self._install(version, root, stop, lean=lean)

    def _finished(self, version: str, root: Path) -> Installed | None:
        """Return a finished installation that has its executable and the required integrity."""
        try:
            *name, integrity = (root / MARKER).read_text().split()
        except (OSError, ValueError):
            return None
        executable = self._executable(root)
        if not executable or name != [self.package, version] or not self.agrees(version, integrity):
            return None
        return Installed(version, root, executable, integrity)

    def _install(self, version: str, root: Path, stop: Stop | None, *, lean: bool) -> Installed:
        unfinished = root.parent / f".{root.name}.partial"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        try:
            integrity = self._fill(version, unfinished, stop, lean=lean)
            if not self.agrees(version, integrity):
                what = f"{self.package} {version} differs from what {self.title} published"
                raise MachineError(what, "don't use it, and tell its maintainers")
            if not self._executable(unfinished):
                tried = ", ".join(self.executables).replace("{platform}", node_platform())
                what = f"{self.engine} {version} installs no executable for {node_platform()} (looked for {tried})"
                hint = f"probe it on another platform, or pass an executable: {self.engine}=/path/to/executable"
                raise MachineError(what, hint)
            (unfinished / MARKER).write_text(f"{self.package} {version} {integrity}\n")
            shutil.rmtree(root, ignore_errors=True)
            unfinished.rename(root)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        installed = self._finished(version, root)
        assert installed  # noqa: S101 - it was there before the rename
        return installed


def node_platform() -> str:
    """Return Node's name of this platform: `process.platform-process.arch`."""
    machine = platform.machine().lower()
    names = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64"}
    return f"{sys.platform}-{names.get(machine, machine)}"


def run_manager(
    name: str, argv: tuple[str, ...], command: str, folder: Path | None, stop: Stop | None
) -> tuple[int | None, str, str]:
    """Run a package manager with the user's settings; return exit code, standard output and standard error.

    It runs in `folder`, which is ours (None: an empty one). MachineError if `stop` ended it, or it took longer than
    `TIMEOUT` seconds.
    """
    outcome = run_away(argv, TIMEOUT, stop, folder)
    if outcome.ended is Ended.STOPPED:
        raise MachineError(f"{name} {command} was interrupted", "run it again")
    if outcome.ended is not Ended.EXIT:
        hint = "the package registry may be slow or unreachable; try again"
        raise MachineError(f"{name} {command} did not finish within {outcome.seconds:.0f} s", hint)
    return outcome.exit_code, outcome.stdout.decode(errors="replace"), outcome.stderr.decode(errors="replace")


def without_hosts(lines: list[str]) -> str:
    """Join lines, without addresses of registries, which may be private."""
    text = "\n".join(lines)
    hosts = re.findall(r"https?://[^\s/]+|(?<=ENOTFOUND )\S+|(?<=EAI_AGAIN )\S+", text)
    return redact(text, dict.fromkeys(hosts, "<package-registry>"))
