"""The releases of an engine on npm, and the pins, with integrity checks and without install scripts."""

import json
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from msgspec.structs import replace
from semver import Version

from turngate import ContractError, MachineError, NotFoundError, NotInstalledError, Stop, TurngateError, history
from turngate_probes.harness.package_managers import NPM_FLAGS, find_program
from turngate_probes.releases.cache import MAKE_ROOM
from turngate_probes.releases.pins import LOCK, MANIFEST, pin_of, pinned_version
from turngate_probes.releases.registry import LATEST, Registry, node_platform, run_manager, without_hosts

NO_NPM = "npm is not on PATH: install Node.js 20 or newer"
NPM_CACHE = ".npm-cache"
_FIELDS = ("version", "dist.integrity", "--json")
_SHOWN_LINES = 6
_CHATTER = (
    "npm http ",
    "npm notice",
    "npm warn",
    "code ",
    "errno ",
    "syscall ",
    "path ",
    "at ",
    "A complete log of this run",
)

_FLAGS = (
    *NPM_FLAGS,
    "--ignore-scripts",
    "--include=optional",  # the builds for each platform are optional dependencies
    "--no-audit",
    "--no-fund",
    "--loglevel=http",  # which tells what came from npm's cache
    # npm would wait 10 s and then a minute before it reports that the registry is unreachable
    "--fetch-retry-mintimeout=1000",
    "--fetch-retry-maxtimeout=5000",
)

# where the registry can't be reached, npm takes what it once saved, and succeeds
_STALE = re.compile(r"(?m)^npm http .*\(cache stale\)$")
_UNREACHABLE = (
    "EAI_AGAIN|ECONNREFUSED|ECONNRESET|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EPROTO|ERR_SOCKET_TIMEOUT|ETIMEDOUT|"
    "FETCH_ERROR|E429|E5..|CERT_.*|.*_CERT.*|ERR_TLS.*"
)
_NETWORK = "check the network, and npm's proxy and registry settings, or pass an executable: ENGINE=/path/to/executable"
_TAMPERED = "try 'npm cache verify'. If it happens again, don't use the release, and tell its maintainers"
_MEND = "fix its permissions, or set TURNGATE_CACHE_DIR to another folder"

# npm's error codes, what is wrong, what to do about it
_CAUSES = (
    (_UNREACHABLE, "the package registry cannot be reached", _NETWORK),
    ("ETARGET|E404", "there is no such release", "choose another version"),
    ("EINTEGRITY", "the package's content does not match its checksum", _TAMPERED),
    ("ENOSPC|EDQUOT", "the disk is full", MAKE_ROOM),
    ("EACCES|EPERM|EROFS", "a folder cannot be written", _MEND),
    ("EBADPLATFORM|EBADENGINE", "the release does not support this platform", "probe it on a supported platform"),
)


class NpmError(MachineError):
    """npm failed; `code` is its error code, such as ETARGET, or empty if it reported none."""

    def __init__(self, what: str, hint: str = "", code: str = "") -> None:
        super().__init__(what, hint)
        self.code = code

    def no_such_release(self) -> bool:
        """Whether the registry responded, but doesn't have the release."""
        return self.code in ("ETARGET", "E404")


def npm(args: tuple[str, ...], stop: Stop | None = None, folder: Path | None = None) -> str:
    """Run npm, with the user's own settings for it, and return its standard output."""
    return _printed(args, stop, folder)[0]


def _printed(args: tuple[str, ...], stop: Stop | None = None, folder: Path | None = None) -> tuple[str, str]:
    """Run npm, and return its standard output and standard error.

    `folder` has the package.json to work on, if any; `stop` ends it early.

    Raises:
        NpmError: npm ran and failed.
        NotInstalledError: npm is missing, or took longer than `TIMEOUT` seconds.
    """
    executable = find_program("npm")
    if executable is None:
        raise NotInstalledError(NO_NPM, "or pass an executable: ENGINE=/path/to/executable")
    exit_code, stdout, stderr = run_manager("npm", (executable, *args, *_FLAGS), args[0], folder, stop)
    if exit_code == 0:
        return stdout, stderr
    error_code = re.search(r"^npm (?:ERR!|error) code (\S+)", stderr, re.MULTILINE)
    code = error_code[1] if error_code else ""
    bare = (re.sub(r"^npm (?:ERR!|error)( network| notarget)? ?", "", line).strip() for line in stderr.splitlines())
    telling = [line for line in bare if line and not line.startswith(_CHATTER)]
    for codes, what, hint in _CAUSES:
        if re.fullmatch(codes, code):
            raise NpmError(f"{what} (npm {args[0]}: {code}: {without_hosts(telling[:1])})", hint, code)
    what = f"npm {args[0]} exited with {exit_code}: {without_hosts(telling[:_SHOWN_LINES])}"
    raise NpmError(what, "see npm's message above", code)


def check_integrity(packages: dict[str, Any], pinned: dict[str, Any]) -> None:
    """Raise MachineError unless all `packages` of a lock have a sha512, and that of the pin if pinned.

    A package bundled in another one has no checksum of its own; that of the bundle covers it.
    """
    for where, entry in packages.items():
        name, integrity = where.removeprefix("node_modules/"), str(entry.get("integrity", ""))
        if where and not entry.get("inBundle") and not integrity.startswith("sha512-"):
            what = f"{name} has no sha512 integrity in npm's lock"
            raise MachineError(what, "its content cannot be checked, so it is not installed")
        if where in pinned and integrity != str(pinned[where].get("integrity", "")):
            raise MachineError(f"{name} is not the pinned one", "tell the maintainers of turngate")


class NpmRegistry(Registry, frozen=True):
    """The npm package of an engine; the integrity of a pin takes precedence over that of the registry."""

    name, title = "npm", "npm"

    def listed(self, stop: Stop | None) -> Self:
        """Query all releases and their integrity, without pre-releases."""
        # not `@*`, which means only the latest one to npm
        printed, log = _printed(("view", f"{self.package}@>=0.0.0", *_FIELDS), stop)
        integrity = _integrity(printed)
        return replace(self, versions=tuple(integrity), integrity=integrity, is_stale=bool(_STALE.search(log)))

    def with_integrity(self, versions: Iterable[str], stop: Stop | None) -> Self:
        """Query the integrity of versions that are not in the list."""
        integrity = dict(self.integrity)
        for version in versions:
            if version in integrity:
                continue
            try:
                integrity |= _integrity(npm(("view", f"{self.package}@{version}", *_FIELDS), stop))
            except NpmError as failure:
                if not failure.no_such_release():
                    raise
        return replace(self, integrity=integrity)

    def exact(self, version: str, stop: Stop | None) -> str:
        """Return an exact version; `latest` is the newest published one. What is no version needs no query."""
        if version == LATEST:
            version = json.loads(npm(("view", self.package, "dist-tags.latest", "--json"), stop))
        if not Version.is_valid(version):
            if self.engine in history.engines():
                raise replace(self, versions=tuple(history.load(self.engine).published)).no_such_version(version)
            raise self._missing(version, stop)
        return version

    def promised(self, version: str) -> str | None:
        """Return the integrity of the pin, else what the registry says."""
        if (lock := self._pinned(version)) is None:
            return super().promised(version)
        return str(lock[f"node_modules/{self.package}"]["integrity"])

    def _pinned(self, version: str) -> dict[str, Any] | None:
        """Return the packages of the pin's lock; None if the version is not the pinned one."""
        lock = pin_of(self.engine) / LOCK
        if pinned_version(self.engine) != version or not lock.is_file():
            return None
        try:
            packages: dict[str, Any] = json.loads(lock.read_text("utf-8"))["packages"]
            _ = packages[f"node_modules/{self.package}"]["integrity"]
        except (OSError, ValueError, RecursionError, LookupError, TypeError) as wrong:
            hint = "write it with `npm install --package-lock-only`"
            raise ContractError(f"isn't a lock file of {self.package}: {wrong}", str(lock), hint=hint) from wrong
        return packages

    def _fill(self, version: str, folder: Path, stop: Stop | None, *, lean: bool) -> str:
        """Install the release, from its pin if it has one.

        Not with `npm ci`, which rejects a lock without the optional builds that a registry doesn't have.
        """
        lock, pinned = folder / LOCK, self._pinned(version)
        if pinned:
            lock.write_text((pin_of(self.engine) / lock.name).read_text())
        manifest = {"name": "turngate-release", "private": True, "dependencies": {self.package: version}}
        (folder / MANIFEST).write_text(json.dumps(manifest))
        try:
            npm(("install", f"--cache={folder / NPM_CACHE}") if lean else ("install",), stop, folder)
        except NpmError as failure:
            if failure.no_such_release():
                raise self._missing(version, stop, failure) from failure
            raise
        shutil.rmtree(folder / NPM_CACHE, ignore_errors=True)
        try:
            packages = json.loads(lock.read_text())["packages"]
        except ValueError as cut:  # npm exits with 0 although it could not write the file
            raise MachineError("npm could not write its lock file: the disk is full", MAKE_ROOM) from cut
        check_integrity(packages, pinned or {})
        return str(packages[f"node_modules/{self.package}"]["integrity"])

    def _executable(self, root: Path) -> Path | None:
        if self._lacks_build(root):
            return None
        paths = (root / candidate.replace("{platform}", node_platform()) for candidate in self.executables)
        runnable = (path for path in paths if path.is_file() and os.access(path, os.X_OK))
        return next((path for path in runnable if path.resolve(strict=True).is_relative_to(root.resolve())), None)

    def _missing(self, version: str, stop: Stop | None, reported: NpmError | None = None) -> TurngateError:
        """Return an error that names what npm doesn't have: the package, the version, or a package that it needs."""
        try:
            published = json.loads(npm(("view", self.package, "versions", "--json"), stop))
        except NpmError as failure:
            if not failure.no_such_release():
                return failure
            return NotFoundError(f"there is no package {self.package}", "the vendor may have withdrawn it")
        versions = (published,) if isinstance(published, str) else tuple(published)
        if reported and version in versions:
            what = f"{self.package} {version} needs a package that the registry doesn't have: {reported.what}"
            return NotFoundError(what, "choose another version")
        return replace(self, versions=versions).no_such_version(version)

    def _lacks_build(self, root: Path) -> bool:
        """Whether a build for this platform is missing although the package lists it; npm skips unpublished ones."""
        manifest = root / "node_modules" / self.package / "package.json"
        if not manifest.is_file():
            return False
        builds = json.loads(manifest.read_text("utf-8")).get("optionalDependencies", {})
        mine = [name for name in builds if name.endswith(f"-{node_platform()}")]
        return any(not (root / "node_modules" / name).is_dir() for name in mine)


def _integrity(printed: str) -> dict[str, str]:
    """Read the integrity of each release: npm prints a list, a single object, or nothing."""
    data: Any = json.loads(printed) if printed.strip() else []
    rows = [data] if isinstance(data, dict) else data
    return {row["version"]: row.get("dist.integrity", "") for row in rows}
