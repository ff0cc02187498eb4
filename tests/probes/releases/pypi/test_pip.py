"""What pip's failures mean."""

import sys
from pathlib import Path

import pytest

from turngate.errors import MachineError
from turngate_probes.releases import registry
from turngate_probes.releases.pypi import pip

RETRYING = "WARNING: Retrying after connection broken by 'NewConnectionError'\nERROR: Could not find a version "
NOTHING = "ERROR: No matching distribution found for vendor-codex==1.0.0"


@pytest.fixture(name="python")
def _python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace Python by a program that prints the file `fail` and fails."""
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/call\ncat {tmp_path}/fail >&2\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    return program


@pytest.mark.parametrize(
    "said, what",
    [
        ("ERROR: Could not find a version (from versions: none)", "there is no such release"),
        ("WARNING: Retrying after connection broken", "the package index cannot be reached"),
        (f"{RETRYING}(from versions: none)\n{NOTHING}", "the package index cannot be reached"),
        (f"{RETRYING}(from versions: 0.1, 0.2)\n{NOTHING}", "there is no such release"),
        ("ERROR: Ignored the following versions that require a different python version", "does not support Python 3"),
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If",
            "content does not match its checksum",
        ),
        (
            "ERROR: In --require-hashes mode, all requirements must have their versions pinned",
            "the pin has no checksum",
        ),
        ("ERROR: Could not install: [Errno 28] No space left on device", "the disk is full"),
        ("python: No module named pip", "this Python has no pip"),
        ("ERROR: odd at https://corp.test/simple", "pip install exited with 1: ERROR: odd at <package-registry>"),
    ],
)
def test_failures_are_told_apart(python: Path, said: str, what: str) -> None:
    """Each cause has its message and remedy, and names no host."""
    python.with_name("fail").write_text(said)
    with pytest.raises(MachineError, match=what) as failed:
        pip(("install", "x"))
    assert failed.value.hint
    assert "corp.test" not in str(failed.value)


def test_pip_serves_another_environment(python: Path) -> None:
    """Pip itself is turngate's, whatever environment it works for, and never asks."""
    python.with_name("fail").write_text("")
    with pytest.raises(MachineError):
        pip(("install", "x"), python=Path("/other/python"))
    call = python.with_name("call").read_text().split()
    assert call[:7] == ["-P", "-m", "pip", "--python", "/other/python", "install", "x"]
    assert "--no-input" in call


def test_pip_is_bounded_in_time(python: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands of pip have a time limit."""
    python.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    monkeypatch.setattr(registry, "TIMEOUT", 0.2)
    with pytest.raises(MachineError, match=r"pip index did not finish within \d+ s"):
        pip(("index", "versions", "x"))
