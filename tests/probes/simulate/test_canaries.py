"""A simulated engine starts the canary programs that its contract says the engine starts."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from turngate.contract import load
from turngate.contract.structs import EngineContract
from turngate.contract.surroundings import Canary, Control, SetupFile
from turngate_probes.simulate.canaries import start_offered

FILE = SetupFile("{work}/offer", "[run]\n{canary} by-file in {work}\n")
GUARDED, FREE = load.contract("opencode").at("1.18.33"), load.contract("codex").at("0.169.0")
GUARD = GUARDED.launch.interactive_env
BY_OPTION = Canary("by-option", "mcp", ("-c", 'run="{canary}"'))
BY_FILE = Canary("by-file", "hook", files=(FILE,))
TRUSTED = Canary("by-file", "hook", files=(FILE,), control=Control(("--trust",)))


def started(
    folder: Path, contract: EngineContract, canary: Canary, *options: str, env: dict[str, str] | None = None
) -> list[str]:
    """Offer a canary in a file and by options; return the markers it created."""
    program = folder / "canary"
    program.write_text(f'#!/bin/sh\n: > "{folder}/marker-$1"\n')
    program.chmod(0o755)
    (folder / "offer").write_text(f"[run]\n{program} by-file in {folder}\n")
    argv = [option.replace("{canary}", str(program)) for option in options]
    start_offered(replace(contract, canaries=(canary,)), argv, {"HOME": str(folder), **(env or {})}, str(folder))
    return sorted(path.name for path in folder.glob("marker-*"))


def test_what_an_option_offers_is_started(tmp_path: Path) -> None:
    """An option starts the canary even if workspace files are ignored."""
    assert started(tmp_path, GUARDED, BY_OPTION, "-c", 'run="{canary}"', env=dict(GUARD)) == ["marker-by-option"]


def test_what_nobody_offers_is_not_started(tmp_path: Path) -> None:
    """Another value of the same option starts nothing."""
    assert started(tmp_path, GUARDED, BY_OPTION, "-c", 'walk="{canary}"') == []


@pytest.mark.parametrize("env, markers", [({}, ["marker-by-file"]), (dict(GUARD), [])])
def test_a_guard_leaves_the_workspace_out(env: dict[str, str], markers: list[str], tmp_path: Path) -> None:
    """The engine starts what a workspace file names, unless the guard's variable makes it ignore such files."""
    assert started(tmp_path, GUARDED, BY_FILE, env=env) == markers


@pytest.mark.parametrize("options, markers", [((), []), (("--trust",), ["marker-by-file"])])
def test_what_needs_trust_waits_for_it(options: tuple[str, ...], markers: list[str], tmp_path: Path) -> None:
    """The file starts the program only with the trust that the control run passes."""
    assert started(tmp_path, FREE, TRUSTED, *options) == markers


def test_a_missing_file_offers_nothing(tmp_path: Path) -> None:
    """A canary with two files needs both."""
    both = Canary("by-file", "hook", files=(FILE, SetupFile("{work}/absent", "x")))
    assert started(tmp_path, FREE, both) == []
