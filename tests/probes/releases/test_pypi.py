"""Installing releases from PyPI: the real pip, with wheels of a folder instead of an index."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.probes import wheels
from turngate import load_contract
from turngate.errors import MachineError, NotFoundError, NotInstalledError
from turngate.files import use_overlay
from turngate.process.executable import difference, fingerprint
from turngate_probes.releases import pypi
from turngate_probes.releases.pins import REQUIREMENTS, pinned_version
from turngate_probes.releases.pypi import PypiRegistry
from turngate_probes.releases.source import published

pytestmark = pytest.mark.long

RELEASES = PypiRegistry("codex", wheels.PACKAGE, ("codex",))


@pytest.fixture(name="index", autouse=True)
def _index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Publish two releases, for a PATH without npm and an empty cache."""
    folder = tmp_path / "index"
    wheels.use(folder, monkeypatch)
    for version in ("1.0.0", "1.1.0"):
        wheels.publish(folder, version)
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    return folder


@pytest.fixture(name="pins")
def _pins(tmp_path: Path) -> Iterator[Path]:
    """Return the folder of the codex pin in an overlay."""
    pins = tmp_path / "own/pins/codex"
    pins.mkdir(parents=True)
    use_overlay(tmp_path / "own")
    yield pins
    use_overlay(None)


def run(executable: Path) -> str:
    """Return what an executable prints."""
    return subprocess.run([executable], capture_output=True, text=True, check=True).stdout


def test_a_release_is_installed_with_its_dependencies(index: Path, tmp_path: Path) -> None:
    """A release gets its own environment, next to npm's releases. It runs there, and is reused without pip."""
    digest = wheels.publish(index, "1.0.0")
    installed = RELEASES.install("1.0.0", print)
    assert installed.root == tmp_path / "cache/engines/codex/pypi-1.0.0"
    assert installed.executable == installed.root / "venv/bin/codex"
    assert not [*installed.root.rglob("vendor_codex*.pyc")], "installing compiles nothing"
    assert run(installed.executable) == "codex-cli 1.0.0\n"
    assert installed.integrity == f"sha256-{digest}"
    assert not (installed.root / "venv/bin/pip").exists()
    for wheel in index.iterdir():
        wheel.unlink()
    assert RELEASES.install("1.0.0", print) == installed
    assert RELEASES.exact("1.0.0", None) == "1.0.0"


def test_only_wheels_are_installed(index: Path) -> None:
    """A source package is refused, also among the dependencies: building it would run its code."""
    (index / "vendor-codex-2.0.0.tar.gz").write_bytes(b"")
    with pytest.raises(MachineError, match="there is no such release for this platform"):
        RELEASES.install("2.0.0", print)
    (index / "vendor_help-1.1.0-py3-none-any.whl").unlink()
    (index / "vendor-help-1.1.0.tar.gz").write_bytes(b"")
    with pytest.raises(MachineError, match="there is no such release for this platform"):
        RELEASES.install("1.1.0", print)


def test_a_program_in_a_wheel_is_found(index: Path) -> None:
    """A wheel without a script may have a program of the engine's name; without both it is rejected."""
    files = {"vendor/deeply/bin/codex": "", "vendor/bin/codex": "#!/bin/sh\necho codex-cli 2.0.0\n"}
    wheels.build(index, wheels.PACKAGE, "2.0.0", files)
    installed = RELEASES.install("2.0.0", print)
    assert installed.executable.parts[-3:] == ("vendor", "bin", "codex")
    assert run(installed.executable) == "codex-cli 2.0.0\n"
    wheels.build(index, wheels.PACKAGE, "3.0.0", {"vendor.py": ""})
    with pytest.raises(MachineError, match="installs no executable for"):
        RELEASES.install("3.0.0", print)


def test_a_change_in_the_environment_is_noticed() -> None:
    """A changed module counts as a change of the executable; what Python compiles when it runs does not."""
    executable = RELEASES.install("1.0.0", print).executable
    before = fingerprint(executable)
    run(executable)
    assert difference(before, executable) == ""
    (module,) = executable.parents[1].rglob("vendor_help.py")
    module.write_text("VERSION = '1.0.1'\n")
    assert "vendor_help.py" in difference(before, executable)


def test_a_release_of_another_python_is_told(index: Path) -> None:
    """The error for a release that needs a newer Python says so."""
    wheels.build(index, wheels.PACKAGE, "2.0.0", {}, python=">=3.99")
    with pytest.raises(MachineError, match=r"the release does not support Python 3\.\d+, which turngate runs on"):
        RELEASES.install("2.0.0", print)


def test_versions_are_listed_and_completed(index: Path) -> None:
    """Versions are listed, oldest first, in three numbers; `latest` is the newest; others get the nearest ones."""
    wheels.build(index, wheels.PACKAGE, "2.1", {"vendor/bin/codex": ""})
    wheels.build(index, wheels.PACKAGE, "2.2.dev1", {"vendor/bin/codex": ""})
    assert RELEASES.listed(None).versions == ("1.0.0", "1.1.0", "2.1.0")
    assert RELEASES.exact("latest", None) == "2.1.0"
    assert RELEASES.exact("2.1", None) == "2.1.0"
    assert RELEASES.install("2.1.0", print).version == "2.1.0"
    with pytest.raises(NotFoundError, match=r"has no version 1\.0\.5") as failed:
        RELEASES.exact("1.0.5", None)
    assert failed.value.hint == "nearest: 1.0.0, 1.1.0"


def test_a_pinned_release_is_installed_only_as_pinned(index: Path, pins: Path) -> None:
    """A pin has the checksums of the release and its dependencies. Other content is refused, in the cache too."""
    (pins / REQUIREMENTS).write_text(wheels.pin(index, "1.0.0"))
    assert pinned_version("codex") == RELEASES.exact("1.0.0", None) == "1.0.0"
    assert RELEASES.install("1.0.0", print).integrity == RELEASES.promised("1.0.0")
    wheels.build(index, "vendor-help", "1.0.0", {"vendor_help.py": "VERSION = 'other'\n"})
    assert RELEASES.is_installed("1.0.0")
    pinned = (pins / REQUIREMENTS).read_text()
    (pins / REQUIREMENTS).write_text(pinned.replace(str(RELEASES.promised("1.0.0"))[7:], "0" * 64))
    assert not RELEASES.is_installed("1.0.0")
    (pins / REQUIREMENTS).write_text(pinned)
    (RELEASES.root("1.0.0") / "venv/bin/codex").unlink()
    with pytest.raises(MachineError, match="content does not match its checksum"):
        RELEASES.install("1.0.0", print)


def test_a_pin_that_lacks_a_dependency_is_refused(index: Path, pins: Path) -> None:
    """A dependency without a checksum is never installed from a pin."""
    (pins / REQUIREMENTS).write_text(wheels.pin(index, "1.0.0").partition("vendor-help")[0])
    with pytest.raises(MachineError, match="the pin has no checksum of a package that this platform needs"):
        RELEASES.install("1.0.0", print)


def test_content_that_differs_from_the_known_one_is_refused() -> None:
    """A release that a gate has seen must have the same content when it is installed again."""
    observed = replace(RELEASES, integrity={"1.0.0": f"sha256-{'0' * 64}"})
    with pytest.raises(MachineError, match="differs from what PyPI published"):
        observed.install("1.0.0", print)


def test_an_engine_on_npm_comes_from_pypi_on_request_alone(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyPI is used for an engine on npm only on request; without npm, PyPI is suggested."""
    monkeypatch.setattr(pypi, "run_manager", None)
    with pytest.raises(NotInstalledError, match="npm is not on PATH: install Node") as missing:
        published("codex")
    assert missing.value.hint.endswith("--registry pypi")
    monkeypatch.undo()
    wheels.use(index, monkeypatch)
    assert load_contract("codex").published.pypi
    wheels.build(index, "openai-codex-cli-bin", "1.0.0", {"vendor/bin/codex": ""})
    registry = published("codex", "pypi")
    assert (registry.name, registry.versions) == ("pypi", ("1.0.0",))
    assert registry.identity("1.0.0") == "pypi:openai-codex-cli-bin==1.0.0"
    assert registry.with_integrity(["1.0.5"], None) is registry
