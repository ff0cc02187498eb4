import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.probes.simulate.played import SimulatedMachine, at_known_release, every_simulation
from turngate.argv.file_slot import SLOT
from turngate.contract.engine_contract import EngineContract
from turngate.errors import NotFoundError
from turngate_probes.simulate.engine import NOT_SIMULATED


@every_simulation
def test_version_and_help_say_what_the_contract_reads(contract: EngineContract, tmp_path: Path) -> None:
    """Version output matches the contract's pattern, help lists all required names, and no model request is made."""
    machine = SimulatedMachine(tmp_path)
    version = machine.call(contract, contract.version_query.argv)
    texts = {"stdout": version.stdout, "stderr": version.stderr}
    assert str(contract.version) in texts[contract.version_query.stream].decode()
    for page in contract.help.pages:
        shown = machine.call(contract, page.argv)
        text = (shown.stdout if page.stream == "stdout" else shown.stderr).decode()
        assert all(f"  {name}\n" in text for name in page.names)
        assert (shown.exit_code, shown.requests) == (0, ())


def test_version_and_help_as_users_ask_for_them(tmp_path: Path) -> None:
    """The short spellings, and the version without what the contract adds to every call, are understood."""
    copilot, machine = at_known_release("copilot"), SimulatedMachine(tmp_path)
    versions = {machine.call(copilot, argv).stdout for argv in (["-v"], ["--version"], copilot.version_query.argv)}
    assert versions == {f"GitHub Copilot CLI {copilot.version}.\nRun 'copilot update' to check for updates.\n".encode()}
    assert machine.call(copilot, ["-h"]).stdout == machine.call(copilot, ["--help"]).stdout != b""


def test_a_list_of_sessions_has_those_of_the_directory(tmp_path: Path) -> None:
    """The oldest first, each with its first prompt and its id; the list begins no session itself."""
    gemini, machine = at_known_release("gemini"), SimulatedMachine(tmp_path)
    empty = machine.call(gemini, ["--list-sessions"]).stdout
    assert empty == b"No previous sessions found for this project."
    first = machine.start(gemini, "one\ntwo").session(gemini)
    machine.now += 1
    second = machine.start(gemini, "x" * 101).session(gemini)
    machine.resume(gemini, first)
    assert machine.call(gemini, ["--list-sessions"]).stdout.decode().splitlines() == [
        "",
        "Available sessions for this project (2):",
        f"  1. one two (Just now) [{first}]",
        f"  2. {'x' * 97}... (Just now) [{second}]",
    ]
    machine.work = "other"
    assert machine.call(gemini, ["--list-sessions"]).stdout == empty


@every_simulation
def test_what_a_release_lists_takes_no_turn(contract: EngineContract, tmp_path: Path) -> None:
    """A simulated engine begins no session and makes no model request for a list, which it may not simulate."""
    machine = SimulatedMachine(tmp_path)
    for listing in contract.listings:
        shown = machine.call(contract, [token.replace("{home}", "/x") for token in listing.argv])
        assert (shown.exit_code in (0, NOT_SIMULATED), shown.requests) == (True, ())
        assert b"thread_id" not in shown.stdout


@every_simulation
def test_wrong_arguments_end_without_a_turn(contract: EngineContract, tmp_path: Path) -> None:
    """Unknown arguments end with a failing exit code, a message on stderr, and no model request."""
    played = SimulatedMachine(tmp_path).call(contract, ["--no-such-option"])
    assert played.exit_code not in {0, None}
    assert played.stderr
    assert (played.stdout, played.requests) == (b"", ())


def test_a_release_that_nobody_described_is_no_crash(tmp_path: Path) -> None:
    """Simulating an unknown engine is an error that says so."""
    with pytest.raises(NotFoundError, match="nobody"):
        SimulatedMachine(tmp_path).call(replace(at_known_release("codex"), engine="nobody"), ["--version"])


def test_the_configuration_in_force_is_shown(tmp_path: Path) -> None:
    """The contract's command prints the settings by which a sticky process asks or denies; without them, it acts."""
    opencode = at_known_release("opencode")
    approval = opencode.sticky.interactive
    assert approval
    assert approval.query
    machine = SimulatedMachine(tmp_path)
    asking = {name: value.replace(SLOT, str(tmp_path)) for name, value in approval.env.items()}
    for env, decisions in (asking, {"ask", "deny"}), ({}, {"allow"}):
        machine.env = env
        shown = json.loads(machine.call(opencode, approval.query.argv).stdout)
        assert set(shown[approval.query.key].values()) == decisions
