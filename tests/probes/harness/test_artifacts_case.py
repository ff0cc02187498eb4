from msgspec.structs import replace

from turngate import load_contract
from turngate.contract.home_and_workspace import ToolUse
from turngate_probes.harness.artifacts_case import played, turns, writing

CODEX = load_contract("codex", "0.169.0")


def test_it_is_played_with_each_group_of_the_users_settings() -> None:
    """Each group of settings that would let the engine write anywhere gets a first turn and a resume."""
    settings = [setting for group in played(CODEX).values() for setting in group]
    assert all(setting in settings for setting in CODEX.approval_settings)
    assert turns(CODEX) == 2 * len(played(CODEX))


def test_an_engine_without_such_settings_is_asked_once() -> None:
    """A contract that knows no settings of the user is tested without any."""
    bare = replace(CODEX, approval_settings=())
    assert played(bare) == {"plain": ()}
    assert turns(bare) == 2


def test_a_contract_without_means_plans_no_turn() -> None:
    """Nothing is played if interactive turns write no artifacts, or if no tool is known that the model could call."""
    assert turns(replace(CODEX, artifacts=None)) == 0
    assert turns(replace(CODEX, hermetic=replace(CODEX.hermetic, tool_call=None))) == 0


def test_a_call_is_moved_however_the_contract_spells_its_file() -> None:
    """The file may be relative, below the working directory, or part of a command; other arguments stay."""
    for spelled in ("touched.txt", "{work}/touched.txt"):
        use = ToolUse("write", {"path": spelled, "text": "hi", "mode": 6})
        assert writing(use, "/a/b.txt") == ToolUse("write", {"path": "/a/b.txt", "text": "hi", "mode": 6})
    command = ToolUse("run", {"cmd": "echo hi > touched.txt"})
    assert writing(command, "/a/b.txt").arguments == {"cmd": "echo hi > /a/b.txt"}
