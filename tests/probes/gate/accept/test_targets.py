"""Where an accepted release may be written."""

import sys
from pathlib import Path

import pytest

from turngate.errors import UsageError
from turngate.files import contract_files, use_overlay
from turngate_probes.gate.accept.targets import AcceptTarget, accept_target
from turngate_probes.releases import pins

ROOT = Path(__file__).parents[4]


def test_a_checkout_is_written_to() -> None:
    """In a checkout the folders are those of the repository."""
    target = accept_target()
    assert target == AcceptTarget(ROOT / "contracts/turngate/engines", pins.PINS, ROOT / "fixtures")
    assert target.contracts / "codex.yaml" == contract_files()["codex"]


def test_an_installed_package_is_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An installed package is never written to; the error suggests --contracts."""
    monkeypatch.setattr(
        sys.modules[accept_target.__module__], "PINS", tmp_path / "site-packages/turngate_probes/releases/pins"
    )
    with pytest.raises(UsageError, match="never changes an installed package") as reported:
        accept_target()
    assert "--contracts DIR" in reported.value.hint


def test_a_folder_of_ones_own_is_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With contracts of the user's, their folder is written to, though it is still missing."""
    monkeypatch.chdir(tmp_path)
    use_overlay(Path("own"))
    own = tmp_path / "own"
    assert accept_target() == AcceptTarget(own / "engines", own / "pins", own / "fixtures")
