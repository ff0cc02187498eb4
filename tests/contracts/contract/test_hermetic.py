"""What a contract says about running its engine in the probe's sandbox."""

from msgspec.structs import replace

from turngate.contract import load
from turngate.contract.hermetic import ToolUse


def test_a_call_is_found_by_the_name_of_its_tool() -> None:
    """Both calls of a probe are known, and no other."""
    write, run = ToolUse("write", {"path": "x"}), ToolUse("run", {"command": "y"})
    hermetic = replace(load.contract("codex").at("0.169.0").hermetic, tool_call=write, command_call=run)
    assert [hermetic.call_of(name) for name in ("write", "run", "other")] == [write, run, None]
    assert replace(hermetic, command_call=None).call_of("run") is None
