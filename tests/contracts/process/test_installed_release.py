"""Which release an executable is: by its package, else by asking it in the directory of a turn."""

import json
import os
from pathlib import Path

import pytest
from msgspec import structs

from tests.fakes.version_manager import MANAGERS, VersionManager
from tests.tables import each
from turngate import EngineContract, load_contract
from turngate.process.installed_release import package_version, place_to_ask, version_in_folder
from turngate_probes.simulate.simulated_process import install

CODEX, CLAUDE, HERMES, KIMI = map(load_contract, ("codex", "claude", "hermes", "kimi"))


def npm(root: Path, name: str, version: str, program: str = "bin/program") -> Path:
    """Install a package with a program, and return the link to it."""
    package = root / "node_modules" / name
    (package / program).parent.mkdir(parents=True)
    (package / program).touch()
    (package / "package.json").write_text(json.dumps({"name": name, "version": version}))
    link = root / "link"
    link.symlink_to(package / program)
    return link


@each(
    "name, version, known",
    [
        ("@openai/codex", "0.147.0", "0.147.0"),
        ("@openai/codex", "0.170.0-alpha.1", "0.170.0-alpha.1"),
        ("@openai/codex", "0.147.0-linux-x64", "0.147.0"),
        ("@openai/codex-sdk", "0.147.0", None),
        ("@openai/codex", "next", None),
    ],
)
def test_the_package_above_a_program_says_its_release(
    tmp_path: Path, name: str, version: str, known: str | None
) -> None:
    """It must be the engine's own, and have the version of a release."""
    assert package_version(CODEX, npm(tmp_path, name, version)) == known


def test_the_build_for_a_platform_says_its_release(tmp_path: Path) -> None:
    """Its package has another name, which the contract lists."""
    assert (
        package_version(CLAUDE, npm(tmp_path, "@anthropic-ai/claude-code-linux-x64", "2.1.330", "claude")) == "2.1.330"
    )


@each("contract, folder", [(HERMES, "hermes_agent-0.19.0"), (HERMES, "Hermes.Agent-0.19.0"), (KIMI, "kimi_cli-0.19.0")])
def test_what_pip_left_beside_a_script_says_its_release(tmp_path: Path, contract: EngineContract, folder: str) -> None:
    """So it does for a package that turngate doesn't install."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/script").touch()
    (tmp_path / "lib/python3.12/site-packages" / f"{folder}.dist-info").mkdir(parents=True)
    assert package_version(contract, tmp_path / "bin/script") == "0.19.0"


def test_a_program_of_no_package_is_asked_where_it_will_run(tmp_path: Path) -> None:
    """One of a package and a simulated one are the same everywhere."""
    alone = tmp_path / "codex"
    alone.touch()
    assert place_to_ask(CODEX, alone, tmp_path / "not/yet") == tmp_path
    assert place_to_ask(CODEX, npm(tmp_path, "@openai/codex", "0.147.0"), tmp_path) is None
    assert place_to_ask(CODEX, install(load_contract("codex", "0.169.0"), tmp_path / "simulated"), tmp_path) is None


@pytest.mark.parametrize("kind", MANAGERS)
def test_a_shim_is_another_release_in_another_directory(tmp_path: Path, kind: str) -> None:
    """It is asked in the directory, with the variables that guard a turn."""
    manager = VersionManager(kind, tmp_path)
    manager.choose("0.169.0")
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    manager.choose("0.147.0", there)
    env = {"PATH": os.defpath, "HOME": str(manager.home)}
    guarded = structs.replace(CODEX, guards=load_contract("gemini").guards)
    versions = [version_in_folder(guarded, manager.shim, folder, env) for folder in (here, there)]
    assert versions == ["0.169.0", "0.147.0"]
    first, second = manager.ran.read_text().splitlines()
    assert first.startswith(f"0.169.0 in {here} with --require")
    assert second.startswith(f"0.147.0 in {there} with --require")
    assert place_to_ask(CODEX, manager.shim, there) == there
