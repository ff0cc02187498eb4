"""Canaries: programs offered to an engine to see whether it starts them."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.contract.home_and_workspace import Canary, Control, SetupFile
from turngate.process.execution import ProcessRequest, run
from turngate_probes.harness import cases
from turngate_probes.harness.sandbox import Sandbox, sandbox

CODEX = load.contract("codex").at("0.169.0")
TRUST = Control(("--trust", "-c", "x=1"), (SetupFile("{home}/trusted", "{work}"),))
OFFERED = (
    Canary("mcp", "mcp", ("-c", 'mcp_servers.x.command="{canary}"'), control=TRUST),
    Canary("model", "helper", ("--model", "m")),
    Canary("hook", "hook", files=(SetupFile("{work}/.codex/hooks", "{canary} hook"),), control=TRUST),
)


@pytest.fixture(name="contract")
def _contract() -> EngineContract:
    return replace(CODEX, canaries=OFFERED)


def test_what_a_server_would_refuse_is_dropped(contract: EngineContract, tmp_path: Path) -> None:
    """In interactive mode, options that may start a program are left out, and others are passed."""
    with sandbox(contract.hermetic, tmp_path, "box", keep=True) as box:
        assert cases.offer(contract, box) == ("--model", "m")


def test_files_are_put_into_the_workspace(contract: EngineContract, tmp_path: Path) -> None:
    """Canary files contain the program's path; files for the control run are written only then."""
    with sandbox(contract.hermetic, tmp_path, "box", keep=True) as box:
        cases.offer(contract, box)
        assert (box.work / ".codex/hooks").read_text() == f"{box.canary} hook"
        assert not (box.home / "trusted").exists()
        without_guards, options = cases.unguard(contract, box)
        assert (box.home / "trusted").read_text() == str(box.work)
        assert without_guards.launch.auto == ()
        command = f'mcp_servers.x.command="{box.canary}"'
        assert options == ("-c", command, "--trust", "-c", "x=1", "--model", "m")


def test_an_option_that_several_canaries_need_is_passed_once(contract: EngineContract, tmp_path: Path) -> None:
    """An option that several canaries need is passed once, because many engines reject repeated options."""
    with sandbox(contract.hermetic, tmp_path, "box", keep=True) as box:
        cases.offer(contract, box)
        assert cases.unguard(contract, box)[1].count("--trust") == 1


def test_a_program_that_was_started_leaves_a_marker_once(contract: EngineContract, tmp_path: Path) -> None:
    """Each started canary is reported once; without an offered canary the result is None."""
    with sandbox(contract.hermetic, tmp_path, "box", keep=True) as box:
        assert box.started() is None
        cases.offer(contract, box)
        assert box.started() == ()
        for name in ("b", "a"):
            started(box, name)
        assert box.started() == ("a", "b")
        assert box.started() == ()


def started(box: Sandbox, name: str) -> None:
    """Start the canary program as an engine might, with an extra argument."""
    done = run(ProcessRequest((str(box.canary), name, "{}"), box.work, {"PATH": "/usr/bin:/bin"}))
    assert done.exit_code == 0
