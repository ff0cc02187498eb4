"""Turns that can't be made safe are refused unless the operator allows them."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.tables import each
from turngate.argv.trust import Trust, declares_unsafe
from turngate.contract import load
from turngate.contract.engine_contract import Deviation, EngineContract
from turngate.contract.home_and_workspace import UnsafeSetting
from turngate.contract.launch import Guards
from turngate.errors import RefusedError
from turngate.model import Mode

CODEX = replace(load.contract("codex").at("0.169.0"), deviations=())
WORK = Path("/work/theirs")


def unsafe(clause: str) -> EngineContract:
    """Return a contract that declares a deviation from a clause."""
    return replace(CODEX, deviations=(Deviation(clause, "any", "run it in a container"),))


@each(
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


@each(
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
    clause: str,
    mode: Mode,
    kept: bool,  # noqa: FBT001
    workspace: Path | None,
) -> None:
    """Another mode, another kind of process, or a workspace in which nobody put a file is safe."""
    Trust().check(unsafe(clause), mode, workspace, {}, kept=kept)


def test_a_release_that_nobody_knows_may_be_an_unsafe_one() -> None:
    """The contract of the newest release says nothing of it; in mode interactive, what any release declares counts."""
    opencode = load.contract("opencode").at()
    for workspace in (None, WORK):
        with pytest.raises(RefusedError, match="some releases of opencode") as raised:
            Trust().check(opencode, Mode.INTERACTIVE, workspace, {})
        assert raised.value.subject == "interactive.settings-cannot-widen"
        assert "`opencode --version`" in raised.value.hint
        assert "--allow-unsafe opencode" in raised.value.hint
    Trust(frozenset({"opencode"})).check(opencode, Mode.INTERACTIVE, WORK, {})
    Trust().check(opencode, Mode.AUTO, WORK, {})
    pi = load.contract("pi").at()
    with pytest.raises(RefusedError, match="files in the workspace can reconfigure some releases of pi"):
        Trust().check(pi, Mode.INTERACTIVE, WORK, {})
    Trust(workspaces=(WORK,)).check(pi, Mode.INTERACTIVE, WORK, {})
    Trust().check(pi, Mode.INTERACTIVE, None, {})
    Trust().check(load.contract("claude").at(), Mode.INTERACTIVE, WORK, {})


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


def home_with(folder: Path, name: str, content: str) -> dict[str, str | None]:
    """Return the variables of a user whose Codex has a file."""
    file = folder / ".codex" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    return {"HOME": str(folder), "CODEX_HOME": None}


@each(
    "name, content, headless, kept",
    [
        ("rules/default.rules", 'prefix_rule(pattern=["touch"], decision="allow")', False, True),
        ("rules/my.rules", 'prefix_rule(pattern=["touch"])', False, True),
        ("rules/my.rules", 'prefix_rule(pattern=["a"], decision="prompt")\nprefix_rule(pattern=["b"])', False, True),
        ("rules/my.rules", 'prefix_rule(\n  pattern=["touch"],\n  decision = "forbidden",\n)', False, False),
        ("rules/my.txt", 'prefix_rule(pattern=["touch"])', False, False),
        ("config.toml", '[mcp_servers.files]\ndefault_tools_approval_mode = "approve"', True, True),
        ("config.toml", "mcp_servers.files.tools.write = {\"approval_mode\"='approve'}", True, True),
        ("config.toml", '[mcp_servers.files]\ncommand = "files" # approval_mode = "approve"', False, False),
    ],
)
def test_a_setting_that_nothing_outranks_is_refused(
    tmp_path: Path,
    name: str,
    content: str,
    headless: bool,  # noqa: FBT001
    kept: bool,  # noqa: FBT001
) -> None:
    """What lets Codex act unasked is found in the user's files; the error names the file and the operator's option."""
    env = home_with(tmp_path, name, content)
    for outlives, refuses in ((False, headless), (True, kept)):
        if refuses:
            with pytest.raises(RefusedError) as raised:
                Trust().check(CODEX, Mode.INTERACTIVE, None, env, kept=outlives)
            assert str(tmp_path / ".codex" / name) in raised.value.what
            assert "--allow-unsafe codex" in raised.value.hint
            assert raised.value.subject == f"{'sticky' if outlives else 'interactive'}.settings-cannot-widen"
        else:
            Trust().check(CODEX, Mode.INTERACTIVE, None, env, kept=outlives)
        Trust().check(CODEX, Mode.AUTO, None, env, kept=outlives)
        Trust(frozenset({"codex"})).check(CODEX, Mode.INTERACTIVE, None, env, kept=outlives)


def test_a_setting_is_looked_for_where_the_engine_reads_it(tmp_path: Path) -> None:
    """Variables that move the engine's files have precedence; an unknown home and a missing file hold no setting."""
    setting = UnsafeSetting("rules", "{CODEX_HOME}/rules/*.rules", "allow", "remove it")
    contract = replace(CODEX, unsafe_settings=(setting,))
    env = home_with(tmp_path, "rules/[a].rules", "allow")
    with pytest.raises(RefusedError, match=r"rules in .*remove it"):
        Trust().check(contract, Mode.INTERACTIVE, None, {"HOME": "/nowhere", "CODEX_HOME": str(tmp_path / ".codex")})
    Trust().check(contract, Mode.INTERACTIVE, None, env | {"CODEX_HOME": str(tmp_path / "other")})
    Trust().check(contract, Mode.INTERACTIVE, None, {})


def test_a_setting_that_nobody_can_read_is_none(tmp_path: Path) -> None:
    """A folder of the file's name, for example; the engine can't read it either."""
    env = home_with(tmp_path, "config.toml/nested", 'approval_mode = "approve"')
    Trust().check(CODEX, Mode.INTERACTIVE, None, env)


def test_only_a_deviation_from_what_protects_makes_an_engine_unsafe() -> None:
    """Other deviations, and settings that a user may lack, don't."""
    assert CODEX.unsafe_settings
    assert not declares_unsafe(CODEX)
    assert not declares_unsafe(unsafe("resume.dead-handle"))
    assert declares_unsafe(unsafe("interactive.nothing-started"))
    assert declares_unsafe(unsafe("sticky.settings-cannot-widen"))
