"""What lets a turn in mode interactive write below one directory, and nowhere else."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.releases import NEWEST
from turngate.argv.artifacts import no_artifacts
from turngate.argv.auto_flags import auto_flags_in
from turngate.argv.build import first_turn, resumed_turn
from turngate.argv.file_slot import artifacts_in, as_in_contract
from turngate.contract.engine_contract import EngineContract
from turngate.errors import RefusedError
from turngate.model import Mode
from turngate.process.turn_run import process_request

ABLE = [contract for contract in NEWEST.values() if contract.artifacts]
UNABLE = [contract for contract in NEWEST.values() if contract.artifacts is None]
able = pytest.mark.parametrize("contract", ABLE, ids=lambda contract: contract.engine)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a directory for artifacts in a workspace whose path has a space and a letter of another script."""
    directory = tmp_path / "wörk space" / "artifacts" / "k3n9x2ab"
    directory.mkdir(parents=True)
    return directory


def argv(contract: EngineContract, directory: Path, session: str | None = None) -> tuple[str, ...]:
    """Return the arguments of the process that may write below the directory."""
    workspace = directory.parents[1]
    if session is None:
        turn = first_turn(contract, "Hi", "interactive", workspace=workspace, artifacts=directory)
    else:
        turn = resumed_turn(contract, "Hi", "interactive", session, workspace=workspace, artifacts=directory)
    return process_request(turn, Path("/opt/engine"), workspace, env={}).argv[1:]


@able
@pytest.mark.parametrize("resumed", [False, True])
def test_the_options_for_artifacts_replace_those_of_the_mode(
    contract: EngineContract, directory: Path, *, resumed: bool
) -> None:
    """The directory is in the arguments of first turns and resumes, as the contract's own options and no others."""
    session = contract.handle.nonexistent_id if resumed else None
    tokens = argv(contract, directory, session)
    assert contract.artifacts
    assert {*contract.artifacts.options} <= {*as_in_contract(tokens, contract)}
    assert any(str(directory) in token for token in tokens)
    assert not [token for token in tokens if "{artifacts}" in token or "{python}" in token or "{files}" in token]
    assert not auto_flags_in(as_in_contract(tokens, contract), contract)
    assert artifacts_in(tokens, contract) == str(directory)


@able
def test_only_these_exact_options_are_exempt(contract: EngineContract, directory: Path) -> None:
    """The same options with a directory that is not for artifacts, or with two, let an engine act unasked."""
    tokens = argv(contract, directory)
    for other in (directory.parent, directory.parents[1], Path("/"), directory / "..", directory.parents[1] / ".git"):
        changed = tuple(token.replace(str(directory), str(other)) for token in tokens)
        assert auto_flags_in(as_in_contract(changed, contract), contract), other
        assert artifacts_in(changed, contract) is None
    again = tuple(token.replace(str(directory), f"{directory}x", 1) for token in tokens)
    assert artifacts_in(again, contract) is None


@able
def test_settings_that_the_mode_pins_stay_pinned(contract: EngineContract) -> None:
    """What `launch.interactive` sets in a JSON object is also set by the options for artifacts."""
    assert contract.artifacts
    usual, own = (
        {key for token in options if token.startswith("{") for key in json.loads(token)}
        for options in (contract.launch.interactive, contract.artifacts.options)
    )
    assert usual <= own


@able
def test_mode_auto_writes_as_before(contract: EngineContract, directory: Path) -> None:
    """The directory changes nothing in mode auto, which may write into the whole workspace."""
    workspace = directory.parents[1]
    turns = [
        first_turn(contract, "Hi", Mode.AUTO, workspace=workspace, artifacts=chosen) for chosen in (None, directory)
    ]
    assert turns[0] == turns[1]


@able
@pytest.mark.parametrize(
    "place, why",
    [
        ("link", "is a link"),
        ("through/k3n9x2ab", "leads through one"),
        ("file", "is not a directory"),
        ("missing", "is not a directory"),
        ("..", "is a link"),
        (".", "is not inside the workspace"),
        ('quo"te', "has characters"),
        ("star*", "has characters"),
    ],
)
def test_a_directory_that_may_be_another_is_refused(
    contract: EngineContract, directory: Path, place: str, why: str
) -> None:
    """A link, a file, a place outside of the workspace or a path that could be misread lets an engine write nothing."""
    work = directory.parents[1]
    (work / "link").symlink_to(directory)
    (work / "through").symlink_to(directory.parent)
    (work / "file").touch()
    for name in ('quo"te', "star*"):
        (work / name).mkdir()
    with pytest.raises(RefusedError, match=why):
        first_turn(
            contract, "Hi", "interactive", workspace=work, artifacts=Path(f"{work}/{place}") if place != "." else work
        )


@able
def test_an_option_of_the_caller_can_rule_artifacts_out(contract: EngineContract, directory: Path) -> None:
    """The contract names the options beside which its means can't work, in every spelling that callers may use."""
    assert contract.artifacts
    assert no_artifacts(contract) == ""
    options = {
        "codex": [("--sandbox", "read-only"), ("-s", "read-only"), ("--config", 'sandbox_mode="read-only"')],
        "claude": [("--permission-mode", "dontAsk"), ("--disallowedTools", "Write")],
    }
    for given in options.get(contract.engine, []):
        with pytest.raises(RefusedError, match="rules it out"):
            first_turn(
                contract,
                "Hi",
                "interactive",
                options=given,
                workspace=directory.parents[1],
                artifacts=directory,
            )


@pytest.mark.parametrize("contract", UNABLE, ids=lambda contract: contract.engine)
def test_an_engine_without_a_means_writes_none(contract: EngineContract, directory: Path) -> None:
    """Its turns are refused, and the reason names the release."""
    with pytest.raises(RefusedError, match=f"{contract.engine}.* has no means"):
        first_turn(contract, "Hi", "interactive", workspace=directory.parents[1], artifacts=directory)


def decided(directory: Path, path: object, event: str, *, tool: str = "Write", cwd: Path | None = None) -> Any:
    """Return what the program that Claude Code asks answers about a call."""
    means = NEWEST["claude"].artifacts
    assert means
    call = {
        "hook_event_name": event,
        "tool_name": tool,
        "tool_input": {"file_path": path},
        "cwd": str(cwd or directory.parents[1]),
    }
    code = [sys.executable, "-I", "-S", "-c", means.files["only-artifacts.py"], str(directory)]
    done = subprocess.run(code, input=json.dumps(call), capture_output=True, text=True, check=False)
    if done.returncode:
        return "failed"
    answer = json.loads(done.stdout)["hookSpecificOutput"]
    assert answer["hookEventName"] == event
    return answer.get("permissionDecision") or answer["decision"]["behavior"]


@pytest.mark.parametrize(
    "path, allowed",
    [
        ("{artifacts}/a.txt", True),
        ("{artifacts}/deep/er/a.txt", True),
        ("artifacts/k3n9x2ab/a.txt", True),
        ("{artifacts}", False),
        ("{artifacts}x/a.txt", False),
        ("{artifacts}/../a.txt", False),
        ("{artifacts}/x/../a.txt", False),
        ("{artifacts}/link", False),
        ("{artifacts}/out/a.txt", False),
        ("{artifacts}/dangling/a.txt", False),
        ("{work}/a.txt", False),
        ("a.txt", False),
        ("/etc/passwd", False),
        ("~/a.txt", False),
        ("", False),
        (None, False),
        (["{artifacts}/a.txt"], False),
    ],
)
def test_the_program_that_claude_asks_allows_one_directory(directory: Path, path: Any, *, allowed: bool) -> None:
    """It denies every other path, and what it can't read fails, which Claude Code takes for a denial."""
    (directory / "link").symlink_to(directory.parent / "file")
    (directory / "out").symlink_to(directory.parents[1])
    (directory / "dangling").symlink_to("/not/there")
    if isinstance(path, str):
        path = path.format(artifacts=directory, work=directory.parents[1]) if "{" in path else path
    assert decided(directory, path, "PermissionRequest") in (("allow",) if allowed else ("deny", "failed"))
    assert decided(directory, path, "PreToolUse") in (("ask",) if allowed else ("deny", "failed"))
    assert decided(directory, path, "PermissionRequest", tool="Bash") in ("deny", "failed")


def test_the_program_that_claude_asks_denies_all_once_the_directory_is_a_link(tmp_path: Path) -> None:
    """A directory that was replaced by a link since the turn began leads elsewhere."""
    (tmp_path / "k3n9x2ab").symlink_to("/tmp")
    assert decided(tmp_path / "k3n9x2ab", f"{tmp_path}/k3n9x2ab/a.txt", "PermissionRequest", cwd=tmp_path) == "deny"
