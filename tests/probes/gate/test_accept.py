"""`turngate gate --accept` end to end, writing to a contracts folder given by the user."""

import json
from pathlib import Path

import pytest
from msgspec import structs

from tests.probes.gate.conftest import NEW, OLD, Gate
from tests.probes.gate.release_samples import release
from turngate.contract import load
from turngate.errors import MachineError
from turngate.files import contract_files
from turngate_probes.gate.accept import source_of, transaction
from turngate_probes.harness.cases import CASES
from turngate_probes.releases.pins import pinned_version
from turngate_probes.releases.pypi import PypiRegistry
from turngate_probes.releases.registry import Installed
from turngate_probes.releases.target import Target

OURS = contract_files()["codex"]


@pytest.fixture(autouse=True)
def _one_case(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record only one case."""
    monkeypatch.setattr(transaction, "RECORDED", tuple(case for case in CASES if case.name == "imitation"))


@pytest.mark.long
def test_an_accepted_release_is_pinned_recorded_and_in_range(gate: Gate, few: tuple[str, ...], tmp_path: Path) -> None:
    """Accepting writes pin, lockfile, contract and recordings, prints the diff, and takes effect at once."""
    gate.shop.faults(NEW, "moves-store")
    text = OURS.read_text()
    code, report = gate.run(*few, "--accept", "--contracts", tmp_path / "own")
    assert code == 0, report["reasons"]
    own = tmp_path / "own"
    assert json.loads((own / "pins/codex/package.json").read_text())["dependencies"] == {"@openai/codex": NEW}
    assert "resolved" not in (own / "pins/codex/package-lock.json").read_text()
    assert (own / f"fixtures/codex/{NEW}/imitation-first/recording.yaml").is_file()
    assert pinned_version("codex") == NEW
    declared = {deviation.clause for deviation in load.contract("codex").at(NEW).deviations}
    assert {"rollback.resume", "rollback.touched"} <= declared
    assert "+  - clause: rollback.resume" in gate.shop.err
    assert "review the diff before you commit it" in gate.shop.err
    assert OURS.read_text() == text, "an installed or checked out contract is left alone"
    # the accepted contract now expects this result
    code, report = gate.run(*few, "--contracts", own)
    results = {clause["id"]: clause["result"] for clause in report["probe"]["releases"][1]["clauses"]}
    assert (results["rollback.resume"], code) == ("deviates", 0)


@pytest.mark.long
def test_what_was_not_answered_is_not_accepted(gate: Gate, few: tuple[str, ...], tmp_path: Path) -> None:
    """An unanswered gate writes nothing and exits with 2."""
    gate.run(*few, "--clause", "version.readable", new=OLD)
    (gate.shop.folder / "without").write_text("executable")
    (gate.shop.folder / "engine").unlink()
    code, _ = gate.run(*few, "--accept", "--contracts", tmp_path / "own")
    assert code == 2
    assert "nothing was accepted" in gate.shop.err
    assert not (tmp_path / "own").exists()


@pytest.mark.long
def test_what_can_not_be_recorded_is_not_accepted(
    gate: Gate, few: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If recording fails, neither the pin nor the contract is written."""

    def failing(*_: object) -> None:
        raise MachineError("the recording was interrupted")

    monkeypatch.setattr(transaction, "record", failing)
    code, _ = gate.run(*few, "--accept", "--contracts", tmp_path / "own")
    assert code == 2
    assert not (tmp_path / "own").exists()


@pytest.mark.long
def test_what_can_not_be_written_whole_is_taken_back(gate: Gate, few: tuple[str, ...], tmp_path: Path) -> None:
    """If the recordings can't be written, the old pin is restored and new files are removed."""
    gate.shop.faults(NEW, "moves-store")
    own = tmp_path / "own"
    (own / "pins/codex").mkdir(parents=True)
    (own / "pins/codex/package.json").write_text('{"dependencies": {"@openai/codex": "0.1.2"}}')
    (own / "fixtures").write_text("in the way")
    code, _ = gate.run(*few, "--accept", "--contracts", own)
    assert code == 2
    assert "nothing was accepted, because" in gate.shop.err
    assert pinned_version("codex") == "0.1.2"
    assert {path.name for path in own.rglob("*") if path.is_file()} == {"package.json", "fixtures"}


def test_a_release_is_recorded_from_where_the_gate_had_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The release is recorded from the source that the gate used: PyPI at the exact version, or an executable."""
    shown = release("codex@0.169.0", source="pypi", integrity="sha256-x")
    source = source_of(shown)
    registry = source.registry
    assert registry is not None
    assert (registry.name, registry.package, registry.versions) == ("pypi", "openai-codex-cli-bin", ("0.169.0",))
    assert source_of(structs.replace(shown, source="path")).registry is None
    installed = Installed("0.169.0", tmp_path, tmp_path / "codex", "sha256-x")
    monkeypatch.setattr(PypiRegistry, "install", lambda *_, **__: installed)
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path))
    with source.held(Target("codex", "0.169.0"), print) as held:
        assert (held.source, held.executable) == ("pypi", tmp_path / "codex")
