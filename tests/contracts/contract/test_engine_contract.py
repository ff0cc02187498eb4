"""What holds for a contract as a whole."""

from msgspec.structs import replace

from turngate.argv.build import first_turn
from turngate.contract import load
from turngate.contract.home_and_workspace import ApprovalSetting, ToolUse


def test_each_stream_has_its_own_framing() -> None:
    """The framing of a stream is looked up by the stream's name."""
    contract = load.contract("iflow").at()
    assert [contract.stream(name).framing for name in ("stdout", "stderr")] == ["text", "tagged_block"]


def test_a_contract_is_short_where_it_is_printed() -> None:
    """The repr of a contract, and of a turn that holds it, names its release and not all of its text."""
    codex = load.contract("codex").at("0.169.0")
    assert repr(codex) == f"EngineContract('codex', '0.169.0', contract_version={codex.contract_version!r})"
    assert len(repr(first_turn(codex, "Paint the door", "auto"))) < 1000


def test_npm_package_is_absent_where_npm_has_no_release() -> None:
    """An engine that isn't published on npm has no npm package."""
    codex = load.contract("codex")
    assert codex.at().npm
    unpublished = load.Document("f", codex.document.data | {"published": {}}, {}, {})
    assert load.Contract(unpublished).at().npm is None


def test_a_call_is_found_by_the_name_of_its_tool() -> None:
    """The calls of a probe are known, those of tools that a user's settings add too, and no other."""
    write, run, own = (ToolUse(name, {}) for name in ("write", "run", "own"))
    codex = load.contract("codex").at("0.169.0")
    hermetic, added = replace(codex.hermetic, tool_call=write, command_call=run), ApprovalSetting("added", tool=own)
    contract = replace(codex, hermetic=hermetic, approval_settings=(added,))
    assert [contract.call_of(name) for name in ("write", "run", "own", "other")] == [write, run, own, None]
    without = replace(contract, hermetic=replace(hermetic, command_call=None), approval_settings=())
    assert [without.call_of(name) for name in ("run", "own")] == [None, None]
