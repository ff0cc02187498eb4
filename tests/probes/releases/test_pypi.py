"""Installing releases from a Python package index that `fake_pip` simulates."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.probes import fake_pip
from turngate.errors import EnvironmentFailed
from turngate_probes.releases import registry as registries
from turngate_probes.releases.pypi import PypiRegistry
from turngate_probes.releases.source import published

WHEELS = PypiRegistry("codex", "vendor-codex", ("codex",))
RETRYING = "WARNING: Retrying after connection broken by 'NewConnectionError'\nERROR: Could not find a version "
NOTHING = "ERROR: No matching distribution found for vendor-codex==1.0.0"


@pytest.fixture(name="index")
def _index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the fake pip on PATH, without npm."""
    program = tmp_path / "python"
    program.write_text(f"#!{sys.executable}\n{Path(fake_pip.__file__).read_text()}")
    program.chmod(0o755)
    (tmp_path / "published").write_text("1.0.0 1.1.0")
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    return tmp_path


def test_a_wheel_is_installed_to_its_checksum(index: Path) -> None:
    """A wheel is cached next to npm releases and reused without pip; installing it runs and compiles nothing."""
    installed = WHEELS.install("1.0.0", print)
    assert installed.root == index / "cache/engines/codex/pypi-1.0.0"
    assert installed.executable == installed.root / "site/vendor/bin/codex"
    assert installed.integrity.startswith("sha256-")
    assert WHEELS.install("1.0.0", print) == installed
    (call,) = map(json.loads, (index / "calls").read_text().splitlines())
    assert {"--only-binary=:all:", "--no-deps", "--no-compile", "--no-cache-dir"} <= set(call)


@pytest.mark.parametrize(
    "said, what",
    [
        ("ERROR: Could not find a version (from versions: none)", "there is no such release"),
        ("WARNING: Retrying after connection broken", "the package index cannot be reached"),
        (f"{RETRYING}(from versions: none)\n{NOTHING}", "the package index cannot be reached"),
        (f"{RETRYING}(from versions: 0.1, 0.2)\n{NOTHING}", "there is no such release"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES: HASHES DO NOT MATCH", "content does not match its checksum"),
        ("ERROR: Could not install: [Errno 28] No space left on device", "the disk is full"),
        ("python: No module named pip", "this Python has no pip"),
        ("ERROR: odd at https://corp.test/simple", "pip install exited with 1: ERROR: odd at <package-registry>"),
    ],
)
def test_failures_are_told_apart(index: Path, said: str, what: str) -> None:
    """Each cause has its message and remedy, names no host, and leaves nothing in the cache."""
    (index / "fail").write_text(said)
    with pytest.raises(EnvironmentFailed, match=what) as failed:
        WHEELS.install("1.0.0", print)
    assert failed.value.hint
    assert "corp.test" not in str(failed.value)
    assert not list((index / "cache/engines/codex").glob("pypi*"))


def test_a_wheel_without_the_executable_is_refused(index: Path) -> None:
    """A wheel without the engine's command is rejected."""
    (index / "without").write_text("")
    with pytest.raises(EnvironmentFailed, match="installs no executable for"):
        WHEELS.install("1.0.0", print)


def test_pip_is_bounded_in_time(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of pip have a time limit."""
    (index / "python").write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    monkeypatch.setattr(registries, "TIMEOUT", 0.2)
    with pytest.raises(EnvironmentFailed, match="pip index did not finish within 0 s"):
        WHEELS.listed(None)


def test_the_index_is_asked_on_request_alone(index: Path) -> None:
    """The index is used only on request.

    The contract lists its wheels, oldest first; without npm they are only suggested.
    """
    with pytest.raises(EnvironmentFailed, match="npm is not on PATH: install Node") as missing:
        published("codex")
    assert missing.value.hint.endswith("--registry pypi")
    assert not (index / "calls").exists()
    registry = published("codex", "pypi")
    assert (registry.name, registry.versions) == ("pypi", ("1.0.0", "1.1.0"))
    assert registry.identity("1.0.0") == f"pypi:{registry.package}==1.0.0"
    assert registry.install(registry.exact("1.1.0", None), print).version == "1.1.0"
    with pytest.raises(EnvironmentFailed, match=r"has no version 1\.0\.5") as failed:
        registry.exact("1.0.5", None)
    assert failed.value.hint == "nearest: 1.0.0, 1.1.0"
    assert registry.with_integrity(["1.0.5"], None) is registry


def test_an_engine_that_the_index_does_not_have(index: Path) -> None:
    """For an engine that the index lacks, the error names the registry that has it."""
    with pytest.raises(EnvironmentFailed, match="gemini is not published on pypi") as missing:
        published("gemini", "pypi")
    assert missing.value.hint == "use --registry npm"
