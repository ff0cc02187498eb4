"""How settings and redirects are tried: together, alone, or without the variables that would hide them."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

from msgspec.structs import replace

from tests.probes import turns as t
from turngate.contract.home_and_workspace import ApprovalSetting, Redirect, SetupFile, ToolUse
from turngate.contract.launch import FileMark
from turngate_probes.harness import settings_cases
from turngate_probes.harness.driver import Ask, EngineDriver

FILES = (SetupFile("{work}/x", "y"),)
SETTINGS = (ApprovalSetting("a", FILES), ApprovalSetting("b", FILES, alone=True), ApprovalSetting("c", FILES))
REDIRECTS = (
    Redirect("d", "address", FILES, unset=("URL",)),
    Redirect("e", "program", FILES),
    Redirect("f", "credentials", FILES, unset=("KEY", "URL")),
    Redirect("g", "program", FILES, alone=True),
)
HERMETIC = replace(t.CODEX.hermetic, tool_call=ToolUse("write", {}), command_call=None)
CONTRACT = replace(t.CODEX, hermetic=HERMETIC, approval_settings=SETTINGS, redirects=REDIRECTS)


def test_entries_are_grouped_by_what_hides_them() -> None:
    """Those that need variables to be unset are tried together, without a model."""
    assert settings_cases.groups(SETTINGS) == {"all": (SETTINGS[0], SETTINGS[2]), "b": (SETTINGS[1],)}
    grouped = settings_cases.groups(REDIRECTS)
    assert grouped == {"offline": (REDIRECTS[0], REDIRECTS[2]), "all": (REDIRECTS[1],), "g": (REDIRECTS[3],)}
    assert settings_cases.unset(grouped["offline"]) == ("URL", "KEY")


def test_as_many_turns_are_planned_as_are_needed() -> None:
    """First turns and resumes for each group and call, one under another model, an opening, and the control runs."""
    assert settings_cases.own_settings_turns(CONTRACT) == 2 * 2 + 2 + 3
    without_default = replace(CONTRACT, hermetic=replace(HERMETIC, default_model=None))
    assert settings_cases.own_settings_turns(without_default) == 2 * 2 + 3
    assert settings_cases.workspace_turns(CONTRACT) == 2 * (3 + 2 + 2) + 4
    adds = replace(SETTINGS[1], tool=ToolUse("mine_act", {}))
    adding = replace(CONTRACT, approval_settings=(SETTINGS[0], adds))
    assert settings_cases.own_settings_turns(adding) == 2 * (1 + 2) + 2 + 2
    silent = replace(CONTRACT, hermetic=replace(HERMETIC, tool_call=None))
    assert settings_cases.own_settings_turns(silent) == 0
    assert settings_cases.file_marks_turns(replace(CONTRACT, file_marks=())) == 2


class _Driver:
    """Plays an engine that makes a folder for its sessions; what it is asked is kept."""

    def __init__(self, folder: Path) -> None:
        self.contract = replace(CONTRACT, instruction_files=(), file_marks=(FileMark(r"(?<!\S)@(?P<path>\S+)"),))
        self.sandbox = SimpleNamespace(root=folder, home=folder / "home", work=folder / "work")
        self.asked = dict[str, str]()

    def start(self, step: str, asked: Ask) -> SimpleNamespace:
        (self.sandbox.home / ".acme/tmp/work").mkdir(parents=True, exist_ok=True)
        self.asked[step] = asked.prompt
        return SimpleNamespace(session="1")

    def resume(self, step: str, session: str, asked: Ask) -> None:
        assert session == "1"
        self.asked[step] = asked.prompt


def test_files_in_the_temporary_folders_of_an_engine_are_named(tmp_path: Path) -> None:
    """Engines may read there what a prompt names; if the contract refuses the marks, the control run has them."""
    driver = _Driver(tmp_path)
    driver.sandbox.home.mkdir()
    settings_cases.file_marks(cast("EngineDriver", driver))
    own = [tmp_path / "home/.acme" / folder / settings_cases.SECRET for folder in ("tmp", "tmp/work")]
    assert {file.read_text() for file in own} == {(tmp_path / settings_cases.SECRET).read_text()}
    assert all(f"@{file} " in driver.asked["control"] for file in own)
    driver.contract = replace(driver.contract, file_marks=())
    settings_cases.file_marks(cast("EngineDriver", driver))
    assert all(f"@{file} " in driver.asked["again"] for file in own)
