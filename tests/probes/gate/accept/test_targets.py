"""Where an accepted release may be written."""

import sys
from pathlib import Path

import pytest

from turngate.contract import load
from turngate.errors import ContractError, EnvironmentFailed
from turngate.files import contract_files, overlay
from turngate_probes.gate.accept.targets import AcceptTarget, accept_target
from turngate_probes.releases import pins

ROOT = Path(__file__).parents[4]


def test_a_checkout_is_written_to() -> None:
    """In a checkout the folders are those of the repository."""
    target = accept_target(None, accept=True)
    assert target == AcceptTarget(ROOT / "contracts/turngate/engines", pins.PINS, ROOT / "fixtures")
    assert target.contracts / "codex.yaml" == contract_files()["codex"]
    assert accept_target(None, accept=False) is None


def test_an_installed_package_is_not(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An installed package is never written to; the error suggests --contracts."""
    monkeypatch.setattr(
        sys.modules[accept_target.__module__], "PINS", tmp_path / "site-packages/turngate_probes/releases/pins"
    )
    with pytest.raises(EnvironmentFailed, match="never changes an installed package") as told:
        accept_target(None, accept=True)
    assert "--contracts DIR" in told.value.hint
    assert accept_target(None, accept=False) is None


def test_a_folder_of_ones_own_goes_before_and_is_written_to(tmp_path: Path) -> None:
    """Contracts and pins in the user's folder override the bundled ones; missing ones are not needed."""
    assert accept_target(tmp_path / "own", accept=True) == AcceptTarget(
        tmp_path / "own/engines", tmp_path / "own/pins", tmp_path / "own/fixtures"
    )
    text = contract_files()["codex"].read_text().replace("title: Codex CLI", "title: My Codex")
    (tmp_path / "own/engines").mkdir(parents=True)
    (tmp_path / "own/engines/codex.yaml").write_text(text)
    (tmp_path / "own/pins/codex").mkdir(parents=True)
    (tmp_path / "own/pins/codex/package.json").write_text('{"dependencies": {"@openai/codex": "0.1.2"}}')
    accept_target(tmp_path / "own", accept=False)
    assert load.contract("codex").at().title == "My Codex"
    assert pins.pinned_version("codex") == "0.1.2"
    assert pins.pinned_version("gemini")
    assert overlay() == tmp_path / "own"


def test_a_wrong_contract_of_ones_own_is_refused(tmp_path: Path) -> None:
    """An invalid contract in the user's folder is rejected with its file."""
    (tmp_path / "engines").mkdir()
    (tmp_path / "engines/codex.yaml").write_text("schema: turngate.engine-contract/1\n")
    with pytest.raises(ContractError, match="required property") as told:
        accept_target(tmp_path, accept=False)
    assert told.value.file.endswith("engines/codex.yaml")
