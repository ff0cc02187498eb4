"""Installing releases from a registry that `fake_npm` simulates, with every way in which that can fail."""

import json
import os
import shutil
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.longer import first_quick
from tests.probes import fake_npm
from turngate.errors import MachineError, NotFoundError, NotInstalledError
from turngate_probes.releases import npm as releases
from turngate_probes.releases import registry as registries
from turngate_probes.releases.cache import MARKER
from turngate_probes.releases.npm import NO_NPM, NpmRegistry
from turngate_probes.releases.pins import pinned_version
from turngate_probes.releases.registry import Installed, node_platform

SOURCE = NpmRegistry("engine", fake_npm.PACKAGE, ("node_modules/engine-{platform}/engine", "node_modules/.bin/engine"))
PINNED = NpmRegistry("codex", "@openai/codex", ("node_modules/.bin/engine",))


class PlayedRegistry:
    """The simulated registry, and a cache to install into."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.said: list[str] = []
        self.publish("0.9.0", "1.0.0", "1.2.0-linux-x64", "1.2.0")
        self.lacks()

    def publish(self, *versions: str) -> None:
        """Publish these versions, the last being the latest."""
        (self.folder / "published.json").write_text(json.dumps(versions))

    def lacks(self, *what: str) -> None:
        """Make installations lack what `fake_npm` understands."""
        (self.folder / "without").write_text(" ".join(what))

    def fails(self, command: str, error: str) -> None:
        """Make an npm command fail with this standard error."""
        (self.folder / f"fail-{command}").write_text(error)

    def waits(self, command: str) -> Path:
        """Make an npm command wait until the returned fifo is written to and closed."""
        fifo = self.folder / f"wait-{command}"
        os.mkfifo(fifo)
        return fifo

    def calls(self) -> list[list[str]]:
        """Return the arguments of every call of npm so far."""
        calls = self.folder / "calls"
        return [json.loads(line) for line in calls.read_text().splitlines()] if calls.exists() else []

    def install(
        self,
        version: str,
        source: NpmRegistry = SOURCE,
        say: Callable[[str], None] | None = None,
    ) -> Installed:
        """Install a release, and collect what is printed."""
        return source.install(source.exact(version, None), say or self.said.append)

    def left(self, engine: str = "engine") -> set[str]:
        """Return the names in the cache of an engine, without locks."""
        return {path.name for path in (self.cache / "engines" / engine).iterdir() if path.suffix != ".lock"}


@pytest.fixture(name="registry")
def _registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlayedRegistry:
    """Put the fake npm, and nothing else, on PATH."""
    program = tmp_path / "bin" / "npm"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{Path(fake_npm.__file__).read_text()}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", str(tmp_path))
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    return PlayedRegistry(tmp_path)


def test_installs_a_release_without_scripts(registry: PlayedRegistry) -> None:
    """A release lands in the cache with its executable and checksum, and no npm command may run scripts."""
    installed = registry.install("1.0.0")
    assert installed.version == "1.0.0"
    assert installed.root == registry.cache / "engines" / "engine" / "1.0.0"
    assert installed.executable == installed.root / "node_modules/.bin/engine"
    assert os.access(installed.executable, os.X_OK)
    assert installed.integrity.startswith("sha512-")
    assert all("--ignore-scripts" in call for call in registry.calls())
    assert registry.left() == {"1.0.0"}
    assert registry.said == ["engine 1.0.0: installing from npm"]


def test_installs_once(registry: PlayedRegistry) -> None:
    """A cached release is used without npm."""
    first = registry.install("1.0.0")
    calls = registry.calls()
    assert registry.install("1.0.0") == first
    assert registry.calls() == calls


def test_latest_is_resolved_to_a_version(registry: PlayedRegistry) -> None:
    """`latest` installs the newest version under its own name."""
    assert registry.install("latest").version == "1.2.0"
    assert registry.left() == {"1.2.0"}


def test_build_of_this_platform_comes_first(registry: PlayedRegistry) -> None:
    """The first executable that exists is taken; `{platform}` is Node's name of this machine."""
    installed = registry.install("1.0.0")
    build = installed.root / f"node_modules/engine-{node_platform()}/engine"
    build.parent.mkdir()
    build.touch(mode=0o755)
    assert registry.install("1.0.0").executable == build


def test_pinned_release_comes_from_its_lock(registry: PlayedRegistry) -> None:
    """A pinned version is installed with the shipped lock file, and must have its checksum."""
    pinned = pinned_version("codex")
    assert pinned
    registry.publish(pinned)
    installed = registry.install(pinned, PINNED)
    lock = json.loads((Path(releases.__file__).parent / "pins/codex/package-lock.json").read_text())
    assert installed.integrity == lock["packages"]["node_modules/@openai/codex"]["integrity"]


def test_pinned_release_with_another_content_is_refused(registry: PlayedRegistry) -> None:
    """A pinned release whose checksum is not that of the pin is not installed."""
    pinned = pinned_version("codex")
    assert pinned
    registry.publish(pinned)
    registry.lacks("pin")
    with pytest.raises(MachineError, match="@openai/codex is not the pinned one"):
        registry.install(pinned, PINNED)
    assert registry.left("codex") == set()


def test_cached_release_that_left_its_pin_is_installed_anew(registry: PlayedRegistry) -> None:
    """A cached release is installed again if its checksum differs from the pinned one."""
    pinned = pinned_version("codex")
    assert pinned
    registry.publish(pinned)
    good = registry.install(pinned, PINNED)
    marker = good.root / MARKER
    marker.write_text(marker.read_text().replace(good.integrity, "sha512-other"))
    assert registry.install(pinned, PINNED) == good
    assert good.integrity in marker.read_text()


@pytest.mark.parametrize(
    "damage",
    [
        lambda root: (root / MARKER).unlink(),
        lambda root: (root / MARKER).write_text("@vendor/engine"),
        lambda root: (root / MARKER).write_text("a b c"),
        lambda root: (root / MARKER).write_text("@vendor/engine 9.9.9 sha512-x"),
        lambda root: (root / "node_modules/.bin/engine").unlink(),
        lambda root: (root / "node_modules/.bin/engine").chmod(0o644),
        lambda root: shutil.rmtree(root / "node_modules"),
    ],
    ids=[
        "no-marker",
        "cut-marker",
        "odd-marker",
        "other-version",
        "no-executable",
        "not-executable",
        "emptied",
    ],
)
def test_broken_entry_is_installed_anew(registry: PlayedRegistry, damage: Callable[[Path], object]) -> None:
    """A broken cache entry is replaced."""
    good = registry.install("1.0.0")
    damage(good.root)
    assert registry.install("1.0.0") == good
    assert os.access(good.executable, os.X_OK)
    assert len(registry.said) == 2


def test_remains_of_an_interrupted_installation_do_not_matter(registry: PlayedRegistry) -> None:
    """A folder that a killed installation left half full is removed."""
    partial = registry.cache / "engines/engine/.1.0.0.partial/node_modules/.bin"
    partial.mkdir(parents=True)
    registry.install("1.0.0")
    assert registry.left() == {"1.0.0"}


def test_two_installations_at_once_install_once(registry: PlayedRegistry) -> None:
    """A second installation of the same release waits for the first, says so, and uses its result."""
    fifo, waiting = registry.waits("install"), threading.Event()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(registry.install, "1.0.0")
        # opening the fifo for writing returns once the first npm process reads it
        with fifo.open("w"):
            second = pool.submit(registry.install, "1.0.0", say=lambda _text: waiting.set())
            assert waiting.wait(30)
        assert first.result(30) == second.result(30)
    assert [call[0] for call in registry.calls()] == ["install"]


@pytest.mark.parametrize(
    "code, what",
    [
        ("ENOTFOUND", "the package registry cannot be reached"),
        ("ECONNREFUSED", "the package registry cannot be reached"),
        ("ETIMEDOUT", "the package registry cannot be reached"),
        ("E503", "the package registry cannot be reached"),
        ("UNABLE_TO_GET_ISSUER_CERT_LOCALLY", "the package registry cannot be reached"),
        ("EINTEGRITY", "the package's content does not match its checksum"),
        ("ENOSPC", "the disk is full"),
        ("EACCES", "a folder cannot be written"),
        ("EBADPLATFORM", "the release does not support this platform"),
    ],
)
@pytest.mark.parametrize("prefix", first_quick(["npm error", "npm ERR!"]), ids=["new-npm", "old-npm"])
def test_failures_are_told_apart(registry: PlayedRegistry, prefix: str, code: str, what: str) -> None:
    """Each cause that npm names has its own message and remedy, and leaves nothing in the cache."""
    registry.fails("install", f"{prefix} code {code}\n{prefix} errno {code}\n{prefix} the reason itself")
    with pytest.raises(MachineError) as failure:
        registry.install("1.0.0")
    assert failure.value.what == f"{what} (npm install: {code}: the reason itself)"
    assert failure.value.hint
    assert registry.left() == set()


def test_unknown_failure_shows_what_npm_says(registry: PlayedRegistry) -> None:
    """Where npm reports no known cause, its own message is shown."""
    registry.fails("install", "npm error Cannot read properties of undefined\nnpm error second line")
    with pytest.raises(MachineError, match=r"npm install exited with 1: Cannot read .*\nsecond line"):
        registry.install("1.0.0")


@pytest.mark.parametrize(
    "text", ["GET https://packages.corp.test:8443/@vendor%2fengine", "getaddrinfo ENOTFOUND corp.test"]
)
def test_registry_is_not_named(registry: PlayedRegistry, text: str) -> None:
    """Error messages don't contain the address of the registry, which may be private."""
    registry.fails("install", f"npm error code ENOTFOUND\nnpm error network {text}")
    with pytest.raises(MachineError) as failure:
        registry.install("1.0.0")
    assert "<package-registry>" in failure.value.what
    assert "corp.test" not in failure.value.what


@pytest.mark.parametrize("version", ["1.1.0", "1.1", "^1.0.0", "1.2.0-nightly"])
def test_unknown_version_names_the_nearest(registry: PlayedRegistry, version: str) -> None:
    """An unpublished or invalid version is rejected with its neighbours."""
    with pytest.raises(NotFoundError) as failure:
        registry.install(version)
    assert failure.value.what == f"@vendor/engine has no version {version}"
    assert failure.value.hint == "nearest: 1.0.0, 1.2.0"


def test_unknown_package_is_told_as_such(registry: PlayedRegistry) -> None:
    """A package that the registry lacks is not reported as a missing version."""
    missing = "npm error code E404\nnpm error 404 Not Found"
    registry.fails("install", missing)
    registry.fails("view", missing)
    with pytest.raises(NotFoundError, match="there is no package @vendor/engine"):
        registry.install("1.0.0")


def test_a_missing_dependency_is_told_as_such(registry: PlayedRegistry) -> None:
    """If the registry has the release but not a package that it needs, npm's message about that package is shown."""
    registry.fails("install", "npm error code ETARGET\nnpm error notarget No matching version found for helper@2.0.0.")
    needs = "@vendor/engine 1.0.0 needs a package that the registry doesn't have: .*helper@2.0.0"
    with pytest.raises(NotFoundError, match=needs):
        registry.install("1.0.0")


def test_lock_without_checksum_is_refused(registry: PlayedRegistry) -> None:
    """A release is not installed if its lock lacks the sha512 of a package."""
    registry.lacks("integrity")
    with pytest.raises(MachineError, match="@vendor/engine has no sha512 integrity"):
        registry.install("1.0.0")
    assert registry.left() == set()


def test_bundled_packages_need_no_checksum_of_their_own() -> None:
    """A bundled package is covered by the checksum of the package that contains it."""
    releases.check_integrity({"": {}, "a": {"integrity": "sha512-x"}, "a/node_modules/b": {"inBundle": True}}, {})


def test_release_without_an_executable_is_refused(registry: PlayedRegistry) -> None:
    """An installation without an executable for this platform is rejected with the paths that were tried."""
    registry.lacks("executable")
    with pytest.raises(MachineError) as failure:
        registry.install("1.0.0")
    assert f"no executable for {node_platform()}" in failure.value.what
    assert f"node_modules/engine-{node_platform()}/engine" in failure.value.what
    assert registry.left() == set()


@pytest.mark.parametrize("outside", ["../../../../outside", "node_modules/link"])
def test_an_executable_outside_of_the_release_is_none(registry: PlayedRegistry, outside: str) -> None:
    """Neither `..` nor a link of a package leads to a program that the release doesn't contain."""
    program = registry.folder / "outside"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    installed = registry.install("1.0.0")
    root = SOURCE.root("1.0.0")
    (root / "node_modules/link").symlink_to(program)
    assert (root / outside).exists()
    escaping = NpmRegistry("engine", fake_npm.PACKAGE, (outside, "node_modules/.bin/engine"))
    assert registry.install("1.0.0", escaping).executable == installed.executable


def test_release_whose_build_for_this_platform_is_not_published_is_refused(registry: PlayedRegistry) -> None:
    """A release whose build for this platform isn't published is rejected, although its launcher is there."""
    registry.lacks("build")
    with pytest.raises(MachineError, match="installs no executable for"):
        registry.install("1.0.0")


def test_npm_that_does_not_end_is_ended(registry: PlayedRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of npm have a time limit."""
    registry.waits("install")
    monkeypatch.setattr(registries, "TIMEOUT", 0.2)
    with pytest.raises(MachineError, match=r"npm install did not finish within \d+ s"):
        registry.install("1.0.0")


def test_missing_npm_is_told_with_its_remedy(registry: PlayedRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without npm on PATH the message says what to install."""
    monkeypatch.setenv("PATH", str(registry.folder / "nowhere"))
    with pytest.raises(NotInstalledError, match="npm is not on PATH: install Node") as failure:
        registry.install("1.0.0")
    assert failure.value.what == NO_NPM


def test_engine_without_a_pin_has_no_pinned_version() -> None:
    """An engine without a pin has no pinned version, and that is no error."""
    assert pinned_version("no-such-engine") is None


def test_a_lock_that_npm_could_not_write_is_told(registry: PlayedRegistry) -> None:
    """On a full disk npm may end well and leave its lock empty."""
    registry.lacks("lock")
    with pytest.raises(MachineError, match="npm could not write its lock file: the disk is full"):
        registry.install("1.0.0")
    assert registry.left() == set()


def test_what_npm_had_saved_is_told(registry: PlayedRegistry) -> None:
    """It succeeds without the registry if it saved an answer of it."""
    assert not SOURCE.listed(None).is_stale
    (registry.folder / "says-view").write_text("npm http fetch GET 200 https://registry.test/x 6040ms (cache stale)\n")
    assert SOURCE.listed(None).is_stale
