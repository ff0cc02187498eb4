"""How settings and redirects are tried: together, alone, or without the variables that would hide them."""

from msgspec.structs import replace

from tests.probes import turns as t
from turngate.contract.home_and_workspace import ApprovalSetting, Redirect, SetupFile, ToolUse
from turngate_probes.harness import settings_cases

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
