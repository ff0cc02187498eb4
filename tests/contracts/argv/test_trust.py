"""Turns that can't be made safe are refused unless the operator allows them."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from turngate.argv.trust import Trust
from turngate.contract import load
from turngate.contract.launch import Guards
from turngate.contract.structs import Deviation, EngineContract
from turngate.errors import RefusedError
from turngate.model import Mode

CODEX = replace(load.contract("codex").at("0.169.0"), deviations=())
WORK = Path("/work/theirs")


def unsafe(clause: str) -> EngineContract:
    """Return a contract that declares a deviation from a clause."""
    return replace(CODEX, deviations=(Deviation(clause, "any", "run it in a container"),))


@pytest.mark.parametrize(
    "clause, mode, kept, workspace",
    [
        ("interactive.settings-cannot-widen", Mode.INTERACTIVE, False, None),
        ("interactive.nothing-started", Mode.INTERACTIVE, False, WORK),
        ("workspace.cannot-redirect", Mode.INTERACTIVE, False, WORK),
        ("workspace.cannot-redirect", Mode.AUTO, False, WORK),
        ("sticky.settings-cannot-widen", Mode.INTERACTIVE, True, None),
        ("sticky.workspace-cannot-redirect", Mode.INTERACTIVE, True, WORK),
    ],
)
def test_what_is_unsafe_is_refused(clause: str, mode: Mode, kept: bool, workspace: Path | None) -> None:  # noqa: FBT001
    """The error names the engine, what an orchestrator must do, and the option that allows it."""
    with pytest.raises(RefusedError) as raised:
        Trust().check(unsafe(clause), mode, workspace, {}, kept=kept)
    assert raised.value.subject == clause
    assert "codex 0.169.0" in raised.value.what
    assert "run it in a container" in raised.value.hint
    assert "--allow-unsafe codex" in raised.value.hint
    Trust(frozenset({"codex"})).check(unsafe(clause), mode, workspace, {}, kept=kept)


@pytest.mark.parametrize(
    "clause, mode, kept, workspace",
    [
        ("interactive.settings-cannot-widen", Mode.AUTO, False, WORK),
        ("interactive.settings-cannot-widen", Mode.INTERACTIVE, True, WORK),
        ("interactive.nothing-started", Mode.AUTO, False, WORK),
        ("workspace.cannot-redirect", Mode.AUTO, False, None),
        ("sticky.workspace-cannot-redirect", Mode.INTERACTIVE, False, WORK),
        ("resume.dead-handle", Mode.INTERACTIVE, False, WORK),
    ],
)
def test_what_a_deviation_says_nothing_of_is_not_refused(
    clause: str, mode: Mode, kept: bool, workspace: Path | None  # noqa: FBT001
) -> None:  # fmt: skip
    """Another mode, another kind of process, or a workspace in which nobody put a file is safe."""
    Trust().check(unsafe(clause), mode, workspace, {}, kept=kept)


def test_a_trusted_workspace_allows_what_its_own_files_do(tmp_path: Path) -> None:
    """Only that directory is trusted, by whichever name, and not what settings of the user do."""
    mine, below = tmp_path / "mine", tmp_path / "mine/below"
    below.mkdir(parents=True)
    (tmp_path / "link").symlink_to(mine)
    trust = Trust(workspaces=(tmp_path / "link",))
    trust.check(unsafe("workspace.cannot-redirect"), Mode.AUTO, mine, {})
    with pytest.raises(RefusedError, match="files in the workspace"):
        trust.check(unsafe("workspace.cannot-redirect"), Mode.AUTO, below, {})
    with pytest.raises(RefusedError, match="settings of the user"):
        trust.check(unsafe("interactive.settings-cannot-widen"), Mode.INTERACTIVE, mine, {})


def test_a_trusted_workspace_is_not_guarded(tmp_path: Path) -> None:
    """The engine then reads the workspace's files as if the user had started it, but keeps the files supplied to it."""
    guarded = replace(CODEX, guards=Guards(env={"IGNORE": "1"}, files={"ask.toml": "ask = true"}))
    trust = Trust(workspaces=(tmp_path,))
    assert trust.applied(guarded, tmp_path).guards == Guards(files={"ask.toml": "ask = true"})
    assert trust.applied(guarded, tmp_path / "other") is guarded
